package observe_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -update writes it:\n%s", file, diff)
	}
}

func TestR5TimelineAsText(t *testing.T) {
	refused := observe.Timeline{
		Key: getUser, Start: start, End: start, FinalError: errors.New("no policy:\n  provider unavailable"), Reason: policy.ReasonNoPolicy,
	}
	single := observe.Timeline{
		Key: getUser, PolicyID: "rev-17", Start: start, End: at(72345678 * time.Microsecond), Reason: policy.ReasonSuccess,
		Attempts: []observe.AttemptRecord{{
			Attempt: 1, Start: at(999 * time.Nanosecond), End: at(72345678 * time.Microsecond), Outcome: outcome(classify.Success, policy.ReasonSuccess),
		}},
	}
	for name, timeline := range map[string]observe.Timeline{
		"hedged": hedged(), "denied": exhausted(), "refused": refused, "single": single,
	} {
		t.Run(name, func(t *testing.T) { golden(t, "timeline_"+name+".txt", timeline.String()) })
	}
}

func TestR5TimelineAsJSON(t *testing.T) {
	timeline := hedged()
	timeline.Attributes = timeline.Attributes.With(observe.AttrPolicySource, "file")
	timeline.FinalError = errors.New("kept")
	got, err := json.MarshalIndent(timeline, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "timeline.json", string(got)+"\n")
}

func TestR5FailedAndRan(t *testing.T) {
	done, failed := hedged(), exhausted()
	if done.Failed() || done.Ran() != 3 {
		t.Errorf("hedged: failed %v, ran %d; want false, 3", done.Failed(), done.Ran())
	}
	if !failed.Failed() || failed.Ran() != 1 {
		t.Errorf("exhausted: failed %v, ran %d; want true, 1", failed.Failed(), failed.Ran())
	}
	replayed := observe.Timeline{Reason: policy.ReasonIdempotencyHit} // the stored result of an earlier call
	if replayed.Failed() {
		t.Error("a replayed result counts as a failure")
	}
	returned := observe.Timeline{Reason: policy.ReasonAttemptsExhausted} // an HTTP response returned with a nil error
	if !returned.Failed() {
		t.Error("attempts_exhausted without an error counts as success")
	}
}

// TestReasonsOfAClassifierArePrintedOnOneLine: a classifier may take its reason from a response.
func TestReasonsOfAClassifierArePrintedOnOneLine(t *testing.T) {
	timeline := observe.Timeline{Key: policy.ParseKey("a.B"), Reason: "final\n\x1b[31m", Attempts: []observe.AttemptRecord{
		{Attempt: 1, Outcome: classify.Outcome{Kind: classify.Abort, Reason: "busy\n\x1b[31m"}},
	}}
	if text := timeline.String(); strings.Count(text, "\n") != 3 || strings.Contains(text, "\x1b") {
		t.Errorf("printed %q", text)
	}
}
