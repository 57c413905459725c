package retry

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// named is a provider whose policy of a key names a class of its own.
type named struct{}

func (named) Policy(_ context.Context, key policy.Key) (*policy.Policy, error) {
	return &policy.Policy{Key: key, Retry: policy.Retry{RetryOn: []policy.Class{policy.Class("class_" + key.Name)}}}, nil
}

// TestP2WhatWasReportedAsMissingIsBounded: as everything that an executor keeps.
func TestP2WhatWasReportedAsMissingIsBounded(t *testing.T) {
	e := NewExecutor(ExecutorOptions{Provider: named{}, MaxKeys: 2})
	for i := range 9 {
		_ = e.Policy(context.Background(), policy.Key{Name: fmt.Sprint(i)})
	}
	if n := len(e.missing); n != 2 {
		t.Errorf("%d missing names are kept", n)
	}
}

// TestR13RecordsFollowTheClock: an executor reads the system's clock at least once a second, so that a step of that clock
// shows in its records.
func TestR13RecordsFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewExecutor(ExecutorOptions{})
		for _, wait := range []time.Duration{0, time.Millisecond, time.Second - 1, time.Second, time.Hour} {
			e.now()
			reading := e.clockReading.Load()
			time.Sleep(wait)
			if now := e.now(); !now.Equal(time.Now()) {
				t.Errorf("%v for %v", now, time.Now())
			}
			if again := e.clockReading.Load() != reading; again != (time.Since(*reading) >= time.Second) {
				t.Errorf("after %v the time of day was read again: %v", time.Since(*reading), again)
			}
		}
	})
}
