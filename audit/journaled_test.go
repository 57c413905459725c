package audit

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/observe"
)

// TestA2ActionsOfGuardsAreRecordedOnce: a guard reports to its journal and to its observer, and the log may be both.
func TestA2ActionsOfGuardsAreRecordedOnce(t *testing.T) {
	var seen journaled
	event := func(action string) *observe.Event {
		return &observe.Event{
			Type: observe.Idempotent, Time: time.Unix(1, 0), Work: observe.Work{ID: "w"},
			Idempotency: &observe.IdempotencyAction{Key: "k", Action: action},
		}
	}
	seen.add(event("record"))
	if seen.take(event("hit")) {
		t.Error("another action of the same work is dropped as its repetition")
	}
	if !seen.take(event("record")) || seen.take(event("record")) {
		t.Error("an event is dropped twice")
	}
}
