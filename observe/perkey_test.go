package observe_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func captureLog(t *testing.T) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	return &out
}

func TestP2KeysBeyondTheLimitShareOneLabel(t *testing.T) {
	out := captureLog(t)
	var made []string
	labels := observe.NewPerKey(2, func(label string) string {
		made = append(made, label)
		return label
	})
	var got []string
	for _, name := range []string{"a", "b", "c", "d", "a", "c"} {
		got = append(got, labels.Get(policy.Key{Name: name}))
	}
	if diff := cmp.Diff([]string{"a", "b", "other", "other", "a", "other"}, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "other"}, made); diff != "" {
		t.Errorf("each label is made once (-want +got):\n%s", diff)
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 1 || !strings.Contains(out.String(), "max_keys=2 key=c") {
		t.Errorf("%d warnings, want 1 that names the first key left out:\n%s", n, out.String())
	}
}

func TestP2DefaultLimit(t *testing.T) {
	captureLog(t)
	labels := observe.NewPerKey(0, func(label string) string { return label })
	for i := range observe.DefaultMaxKeys {
		if got := labels.Get(policy.Key{Name: fmt.Sprint(i)}); got != fmt.Sprint(i) {
			t.Fatalf("key %d is labelled %q", i, got)
		}
	}
	if got := labels.Get(policy.Key{Name: "one more"}); got != observe.OtherLabel {
		t.Errorf("got %q, want other", got)
	}
}

func TestP2LabelIsValidUTF8(t *testing.T) {
	labels := observe.NewPerKey(0, func(label string) string { return label })
	if got := labels.Get(policy.Key{Namespace: "a\xff", Name: "b"}); got != "a\uFFFD.b" {
		t.Errorf("got %q", got)
	}
}

func TestP2PerKeyUnderConcurrency(t *testing.T) {
	captureLog(t)
	var made atomic.Int64
	values := observe.NewPerKey(10, func(string) *int64 {
		made.Add(1)
		return new(int64)
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 1000 {
				atomic.AddInt64(values.Get(policy.Key{Name: fmt.Sprint(i % 20)}), 1)
			}
		})
	}
	group.Wait()
	if n := made.Load(); n != 11 {
		t.Errorf("%d values made, want 10 and the shared one", n)
	}
	counts := make(map[*int64]bool) // the first ten keys have their own values, the others share one
	var sum int64
	for i := range 20 {
		v := values.Get(policy.Key{Name: fmt.Sprint(i)})
		if !counts[v] {
			sum += *v
		}
		counts[v] = true
	}
	if len(counts) != 11 || sum != 8000 {
		t.Errorf("%d values with %d events, want 11 with 8000", len(counts), sum)
	}
}

func TestPerKeyReadsDoNotAllocate(t *testing.T) {
	values := observe.NewPerKey(10, func(label string) string { return label })
	values.Get(getUser)
	if n := testing.AllocsPerRun(100, func() { values.Get(getUser) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestD6MetricReasonsAreAClosedSet(t *testing.T) {
	for _, info := range policy.Reasons() {
		if got := observe.ReasonLabel(info.Reason); got != string(info.Reason) {
			t.Errorf("reason %s is labelled %s", info.Reason, got)
		}
	}
	for _, r := range []policy.Reason{"", "user 4711 is unknown"} {
		if got := observe.ReasonLabel(r); got != observe.OtherLabel {
			t.Errorf("reason %q is labelled %q, want other", r, got)
		}
	}
}

func TestP2OutcomesSurfacesAndStatesAreClosedSets(t *testing.T) {
	got := []string{
		observe.OutcomeLabel(classify.Success), observe.OutcomeLabel(classify.Abort), observe.OutcomeLabel(classify.Abort + 1),
		observe.SurfaceLabel(policy.SurfaceCall), observe.SurfaceLabel(policy.SurfaceJob), observe.SurfaceLabel(policy.SurfaceStep),
		observe.SurfaceLabel("cron"),
	}
	want := []string{"success", "abort", "other", "call", "job", "step", "other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	for state, level := range map[string]int{"closed": 0, "half_open": 1, "open": 2} {
		if got, ok := observe.CircuitLevel(state); !ok || got != level {
			t.Errorf("%s is %d, %v; want %d", state, got, ok, level)
		}
	}
	if _, ok := observe.CircuitLevel("ajar"); ok {
		t.Error("ajar has a level")
	}
}
