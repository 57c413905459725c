package main

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

// TestCasesDoTheirWork checks that every case does its scenario's work, so that no number results from omitted work.
func TestCasesDoTheirWork(t *testing.T) {
	for _, s := range Scenarios() {
		for _, c := range s.Cases {
			t.Run(s.Name+"/"+c.Peer, func(t *testing.T) {
				var attempts atomic.Int64
				call := c.New(func(ctx context.Context) error {
					attempts.Add(1)
					return s.Work(ctx)
				})
				for range 3 { // no result may depend on being the first call
					attempts.Store(0)
					err := call(context.Background())
					if (err != nil) != s.Fails {
						t.Fatalf("error %v, want one: %v", err, s.Fails)
					}
					if got := int(attempts.Load()); got != s.Attempts {
						t.Fatalf("%d attempts, want %d", got, s.Attempts)
					}
				}
			})
		}
	}
}

func BenchmarkSerial(b *testing.B) {
	for _, s := range Scenarios() {
		for _, c := range s.Cases {
			b.Run(strings.ReplaceAll(s.Name+"/"+c.Peer, " ", "-"), func(b *testing.B) { serial(b, s, c) })
		}
	}
}

func BenchmarkParallel(b *testing.B) {
	for _, s := range Scenarios() {
		for _, c := range s.Cases {
			b.Run(strings.ReplaceAll(s.Name+"/"+c.Peer, " ", "-"), func(b *testing.B) { parallel(b, s, c) })
		}
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   int64
	}{
		{[]int64{3}, 3},
		{[]int64{9, 1, 5}, 5},
		{[]int64{4, 1, 3, 2}, 2},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %d, want %d", c.values, got, c.want)
		}
	}
}

func TestBarsReportExceededLimits(t *testing.T) {
	r := Results{"success": {
		tenet:    {Serial: 80, Parallel: 90, Allocs: 2},
		cenkalti: {Serial: 160},
		failsafe: {Serial: 300},
	}}
	var out strings.Builder
	writeBars(&out, r)
	for _, want := range []string{
		"0.50 × (80.0 ns / 160 ns) | pass",
		"0.27 × (80.0 ns / 300 ns)",
		"≤ 1 allocations",
		"1.12 × (90.0 ns / 80.0 ns)",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if fails := strings.Count(out.String(), "FAIL"); fails != 3 {
		t.Errorf("%d bars failed, want 3:\n%s", fails, out.String())
	}
	if strings.Contains(out.String(), "hedging") {
		t.Error("a bar without a measurement was written")
	}
}

// TestBarsAreMeasured checks that every bar names existing scenarios and peers.
func TestBarsAreMeasured(t *testing.T) {
	r := Results{}
	for _, s := range Scenarios() {
		r[s.Name] = map[string]Result{}
		for _, c := range s.Cases {
			r[s.Name][c.Peer] = Result{Serial: 1, Parallel: 1}
		}
	}
	for _, b := range Bars() {
		if _, _, ok := b.Measure(r); !ok {
			t.Errorf("bar %q is measured by no case", b.Path)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-time", "0s"}, {"-only", "nothing like it"}, {"-markdown", "x", "-grid"}, {"-markdown", "x", "-only", "hedge"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
