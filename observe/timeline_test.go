package observe_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
)

func TestR6ACaptureHoldsTheLastEndedCall(t *testing.T) {
	ctx, capture := observe.RecordTimeline(t.Context())
	if ctx.Value(observe.CaptureKey{}) != capture {
		t.Fatal("executors cannot find the capture in the context")
	}
	if got, ok := capture.Timeline(); ok || got.CallID != "" {
		t.Fatalf("before any call: %v, %v", got, ok)
	}
	capture.Record(observe.Timeline{CallID: "first"})
	capture.Record(observe.Timeline{CallID: "second"})
	if got, ok := capture.Timeline(); !ok || got.CallID != "second" {
		t.Errorf("got %q, %v; want second", got.CallID, ok)
	}
}

func TestR6CapturesAreSeparate(t *testing.T) {
	outer, first := observe.RecordTimeline(t.Context())
	_, second := observe.RecordTimeline(outer)
	second.Record(observe.Timeline{CallID: "inner"})
	if _, ok := first.Timeline(); ok {
		t.Error("the inner call was recorded into the outer capture")
	}
}

func TestR6CaptureIsSafeForConcurrentUse(t *testing.T) {
	_, capture := observe.RecordTimeline(t.Context())
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			capture.Record(hedged())
			if got, ok := capture.Timeline(); !ok || len(got.Attempts) != 4 {
				t.Errorf("torn timeline: %v, %d attempts", ok, len(got.Attempts))
			}
		})
	}
	group.Wait()
}

func TestAttributesAreImmutable(t *testing.T) {
	one := observe.Attributes{}.With("a", "1")
	two := one.With("a", "2").With("b", "3")
	if one.Get("a") != "1" || one.Len() != 1 || two.Get("a") != "2" || two.Get("c") != "" {
		t.Errorf("one %v, two %v", one, two)
	}
	var names []string
	for name := range two.All() {
		names = append(names, name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for range two.All() {
		break // an early end is not an error
	}
}
