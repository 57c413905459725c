package audit_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
)

// searched is a log that can be read and searched.
type searched struct{ lines }

func (x searched) Find(ctx context.Context, q audit.Query, f func(cursor string, line []byte) error) error {
	return indexed(x).Find(ctx, q, f)
}

func TestA4AReplayInPartsIsThatOfTheWholeLog(t *testing.T) {
	log, _ := recorded(t, 5, 20)
	for i, line := range log {
		if e := parsed(t, line); i%9 == 0 && e.Type == audit.RetryAttempt {
			e.DelayNS++ // a divergence
			log[i] = sealed(t, &e)
		}
	}
	log = append(log, log[3], log[40], []byte("rubbish"))
	shuffled := log.clone()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	document := &policy.Policy{Key: policy.ParseKey("user.Get"), Retry: policy.Retry{MaxAttempts: 2, InitialBackoff: time.Second, MaxBackoff: time.Second}}
	for name, log := range map[string]lines{"in order": log, "shuffled": shuffled} {
		want, other := replay(t, log, audit.ReplayOptions{Limit: 5}), whatIf(t, log, document)
		if want.Diverged == 0 || want.Unreadable == 0 || want.Duplicates == 0 || other.Total.Works == other.Total.Same {
			t.Fatalf("the log shows nothing: %+v, %+v", want, other.Total)
		}
		for _, size := range []int{1, 10, 1000} {
			replayed, changed := &audit.ReplayReport{}, &audit.WhatIfReport{}
			for after, ended := "", false; !ended; {
				w, err := audit.ReadWorks(context.Background(), searched{log}, after, audit.Bounds{Lines: size})
				if err == nil {
					replayed, err = w.Replay(context.Background(), replayed, 5)
				}
				if err == nil {
					changed, err = w.WhatIf(context.Background(), changed, setOf(document))
				}
				if err != nil {
					t.Fatal(err)
				}
				after, ended = w.After, w.Ended
				overTheWire(t, replayed)
				overTheWire(t, changed)
			}
			if diff := cmp.Diff(want, replayed); diff != "" {
				t.Errorf("%s, in parts of %d lines: %s", name, size, diff)
			}
			if diff := cmp.Diff(other, changed); diff != "" {
				t.Errorf("%s, what if in parts of %d lines: %s", name, size, diff)
			}
		}
	}
}

// overTheWire writes a report as JSON and reads it again.
func overTheWire(t *testing.T, report any) {
	t.Helper()
	raw, err := json.Marshal(report)
	if err == nil {
		err = json.Unmarshal(raw, report)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestA4ReadingWorksNeedsABoundAndASource(t *testing.T) {
	if _, err := audit.ReadWorks(context.Background(), searched{}, "", audit.Bounds{}); err == nil {
		t.Error("a part without a bound was read")
	}
	if _, err := audit.ReadWorks(context.Background(), nil, "", audit.Bounds{Lines: 1}); err == nil {
		t.Error("nothing was read without an error")
	}
}
