package audit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestB4TheLogRecordsWhereAFallbackWasCalled(t *testing.T) {
	sink := &audit.MemorySink{}
	log, err := audit.Open(t.Context(), sink, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := setOf(compiled(t, "plain.Call", func(p *policy.Policy) {
		p.Retry.MaxAttempts, p.Retry.InitialBackoff, p.Retry.MaxBackoff = 2, time.Millisecond, time.Millisecond
	}))
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: set, Observer: log, Journal: log})
	key := policy.ParseKey("plain.Call")
	succeed := func(context.Context) error { return nil }
	fail := func(context.Context) error { return errors.New("down") }
	fallBack := retry.WithFallback(func(context.Context, error) error { return nil })
	failure := e.Do(t.Context(), key, fail, retry.WithCallID("failed"))
	err = errors.Join(
		e.Do(t.Context(), key, fail, retry.WithCallID("replaced"), fallBack),
		e.Do(t.Context(), key, succeed, retry.WithCallID("succeeded"), fallBack),
		log.Close(t.Context()),
	)
	if failure == nil || err != nil {
		t.Fatalf("%v, %v", failure, err)
	}
	decisions := map[string]int{}
	for _, event := range sink.Events() {
		if event.Decision == "" {
			continue
		}
		decisions[event.WorkID]++
		want := ""
		if event.WorkID == "replaced" && event.Type == audit.RetryExhausted {
			want = "called"
		}
		if got := event.Attributes[observe.AttrFallback]; got != want {
			t.Errorf("%s, %s: the fallback is recorded as %q, want %q", event.WorkID, event.Type, got, want)
		}
	}
	if decisions["failed"] != 2 || decisions["replaced"] != 2 || decisions["succeeded"] != 1 {
		t.Errorf("recorded decisions: %v", decisions)
	}
	if r := replay(t, sink, audit.ReplayOptions{}); r.Diverged > 0 || r.CannotReplay.Total() > 0 || r.Works != 3 {
		t.Errorf("replay: %+v", r)
	}
}
