package audit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/audit"
)

// TestA1CheckLineFindsDamage damages lines in many ways.
func TestA1CheckLineFindsDamage(t *testing.T) {
	log, _ := recorded(t, 3, 40)
	rapid.Check(t, func(rt *rapid.T) {
		line := append([]byte(nil), log[rapid.IntRange(0, len(log)-1).Draw(rt, "line")]...)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		damage := r.IntN(5)
		switch at := r.IntN(len(line)); damage {
		case 0:
			line = line[:at]
		case 1:
			line = append(line, line...)
		case 2:
			line[at] = byte(r.Uint32())
		case 3:
			line = append(line[:at:at], append([]byte(" "), line[at:]...)...)
		}
		_, want := audit.ParseLine(line)
		got := audit.CheckLine(line)
		if got != nil && (want == nil || !errors.Is(got, audit.ErrLine)) || got == nil && want != nil && damage < 2 {
			rt.Errorf("%q: ParseLine says %v, CheckLine %v", line, want, got)
		}
	})
	for name, line := range map[string]string{
		"no ID":     `{"event_type":"hedge","schema_version":1,"timestamp":"2026-03-01T12:00:00Z"}`,
		"no type":   `{"event_id":"1","schema_version":1,"timestamp":"2026-03-01T12:00:00Z"}`,
		"no time":   `{"event_id":"1","event_type":"hedge","schema_version":1}`,
		"version 0": `{"event_id":"1","event_type":"hedge","timestamp":"2026-03-01T12:00:00Z"}`,
		"version 2": `{"event_id":"1","event_type":"hedge","schema_version":2,"timestamp":"2026-03-01T12:00:00Z"}`,
	} {
		if err := audit.CheckLine([]byte(line)); !errors.Is(err, audit.ErrLine) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestA4ExplainCountsUnreadableLines(t *testing.T) {
	log, _ := recorded(t, 3, 5)
	work, err := audit.ParseLine(log[len(log)-1])
	if err != nil {
		t.Fatal(err)
	}
	log = append(log, []byte("rubbish"), log[len(log)-1][:len(log[len(log)-1])-2])
	story, err := audit.Explain(context.Background(), log, work.WorkID)
	if err != nil || story.Unreadable != 2 {
		t.Errorf("%+v %v", story, err)
	}
	if _, err := audit.Explain(context.Background(), log[len(log)-2:], work.WorkID); !errors.Is(err, audit.ErrNoWork) || err.Error() != "audit: the log has no event of this work: "+work.WorkID+"; 2 lines of the log are not events" {
		t.Error(err)
	}
}
