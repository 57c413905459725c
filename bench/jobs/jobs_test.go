package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// TestCasesDoTheirWork checks that every system runs exactly the enqueued jobs, so that no number results from omitted work:
// a burn-down fails otherwise.
func TestCasesDoTheirWork(t *testing.T) {
	env, err := newEnvironment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.close(); err != nil {
			t.Error(err)
		}
	}()
	o := settings{jobs: 1000, long: 1000, backlog: 10_000}
	for _, s := range scenarios(o) {
		for _, c := range s.Cases {
			t.Run(strings.ReplaceAll(s.Name+"/"+c.Peer, " ", "-"), func(t *testing.T) {
				task := s.Task
				task.For = time.Millisecond
				switch task.Kind {
				case measure.Latency:
					task.Jobs = 3
				case measure.Bulk, measure.Burn:
					task.Jobs = 100
				}
				out, err := c.Run(t.Context(), env, task)
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case s.Name == pgLong:
					if out.Jobs != 100 || out.Dead == 0 || out.Size == 0 {
						t.Errorf("%d jobs ran and left %d dead rows in %d bytes, want 100 and more than 0", out.Jobs, out.Dead, out.Size)
					}
				case task.Kind == measure.Latency:
					if len(out.Waits) != 3 {
						t.Errorf("%d samples, want 3", len(out.Waits))
					}
				case task.Kind == "":
					if len(out.Claims) != 3 || out.Claims[2] <= 0 {
						t.Errorf("claims took %v, want three positive medians", out.Claims)
					}
				case out.Jobs == 0 || out.Took <= 0 || task.Kind == measure.Burn && out.Jobs != 100:
					t.Errorf("%d jobs in %v", out.Jobs, out.Took)
				}
			})
		}
	}
}

// TestBarsAreMeasured checks that every bar names existing scenarios and peers.
func TestBarsAreMeasured(t *testing.T) {
	r := Results{}
	for _, s := range scenarios(settings{}) {
		r[s.Name] = map[string]Result{}
		for _, c := range s.Cases {
			r[s.Name][c.Peer] = Result{Rate: 1, P50: 1, P99: 1, Claims: []time.Duration{1, 1, 1}}
		}
	}
	for _, b := range Bars() {
		if _, _, ok := b.Measure(r); !ok {
			t.Errorf("bar %q is measured by no case", b.Path)
		}
	}
}

func TestBarsReportMissedGoals(t *testing.T) {
	r := Results{
		pgBurn:    {peerTenet: {Rate: 60_000}, peerRiver: {Rate: 30_000}},
		pgBulk:    {peerTenet: {Rate: 110_000}, peerRiver: {Rate: 100_000}},
		pgLatency: {peerTenet: {P50: time.Millisecond, P99: 3 * time.Millisecond}, peerRiver: {P50: time.Millisecond, P99: 2 * time.Millisecond}},
		liteClaim: {peerTenet: {Claims: []time.Duration{100, 150, 201}}},
	}
	var out strings.Builder
	writeBars(&out, r)
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"2.00 × (60,000/s / 30,000/s) | pass", "1.10 × (110,000/s / 100,000/s) | FAIL", "1.00 × (1.00 ms / 1.00 ms) | pass",
		"1.50 × (3.00 ms / 2.00 ms) | FAIL", "2.01 × (0.2 µs / 0.1 µs) | FAIL",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(text, liteBurn) {
		t.Error("a bar without a measurement was written")
	}
}

// TestRoundsAreCombined: medians are over rounds, quantiles of latency over the samples of all rounds.
func TestRoundsAreCombined(t *testing.T) {
	ms := time.Millisecond
	round := func(jobs int, took, cpu time.Duration, waits ...time.Duration) Outcome {
		return Outcome{Numbers: measure.Numbers{Jobs: jobs, Took: took, CPU: cpu, Waits: waits}}
	}
	r := combine([]Outcome{round(10, 100*ms, 10*ms, 1, 2), round(10, 50*ms, 30*ms, 3), round(10, 10*ms, 20*ms, 4, 5)})
	if two := median([]float64{4, 1}); two != 2.5 {
		t.Errorf("the median of 4 and 1 is %v, want 2.5", two)
	}
	if r.Rate != 200 || r.CPU != 2*ms || r.P50 != 3 || r.P99 != 5 || r.Samples != 5 {
		t.Errorf("got %+v", r)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-n", "10"}, {"-long", "10"}, {"-backlog", "10"}, {"-only", "nothing like it"}, {"-markdown", "x", "-only", "insert"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for got, want := range map[string]string{
		number(999): "999", number(1_234_567): "1,234,567", short(1234 * time.Nanosecond): "1.2 µs", short(1234 * time.Microsecond): "1.23 ms",
		short(12345 * time.Microsecond): "12.3 ms",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
