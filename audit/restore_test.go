package audit

import (
	"testing"

	"github.com/tenetdev/tenet/policy"
)

// TestA4AnAbsurdNumberOfAttemptsIsReplayedSoon: with decorrelated jitter, a delay takes as many steps as attempts came before.
func TestA4AnAbsurdNumberOfAttemptsIsReplayedSoon(t *testing.T) {
	p := *getUser
	p.Retry.Jitter = policy.JitterDecorrelated
	s, err := snapshot(PolicySnapshot, &p, "r")
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	e.decided(failed("w", 1), 1, nil, nil)
	e.PolicyRevision, e.StateNumber, e.StateLimit = "r", 1<<50, 1<<51
	var sink MemorySink
	l := open(t, &sink, Options{})
	for _, e := range []Event{s, e} {
		if err := l.Record(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, l)
	if r, err := Replay(bg, &sink, ReplayOptions{}); err != nil || r.Decisions != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := Explain(bg, &sink, "w"); err != nil {
		t.Error(err)
	}
}
