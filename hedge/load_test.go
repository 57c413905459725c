package hedge

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

func calls(l *Load, n int) {
	for range n {
		l.Call()
	}
}

// hedges counts how many of n hedges l allows.
func hedges(l *Load, n int, fraction float64) int {
	allowed := 0
	for range n {
		if l.TryHedge(fraction) {
			allowed++
		}
	}
	return allowed
}

func TestR10MaxExtraLoad(t *testing.T) {
	tests := []struct {
		name     string
		calls    int
		fraction float64
		want     int // of 200 hedges
	}{
		{"no calls", 0, 0.5, 0},
		{"a call short", 49, 0.02, 0},
		{"exactly one", 50, 0.02, 1},
		{"no rounding error", 100, 0.29, 29},
		{"all", 100, 1, 100},
		{"0 is no limit", 1, 0, 200},
		{"nor is less", 1, -1, 200},
		{"nor NaN", 1, math.NaN(), 200},
		{"saves the hedges of at most 1,000 calls", 1_000_000, 0.02, 20},
		{"but at least one", 100_000, 0.0001, 1},
		{"rounded down", 3_000, 1e-10, 0},
		{"two thirds", 3, 2.0 / 3, 1}, // 0.666… three times is less than 2
		{"absurd", 1, math.Inf(1), 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l Load
			calls(&l, tt.calls)
			if got := hedges(&l, 200, tt.fraction); got != tt.want {
				t.Errorf("%d hedges, want %d", got, tt.want)
			}
		})
	}
}

// TestR10MaxExtraLoadChanges: a lower fraction takes effect at once, and earlier hedges do not count against the key.
func TestR10MaxExtraLoadChanges(t *testing.T) {
	var l Load
	calls(&l, 1000)
	if n := hedges(&l, 2000, 0.5); n != 500 {
		t.Fatalf("%d hedges", n)
	}
	hedges(&l, 5000, 0)
	calls(&l, 100)
	if n := hedges(&l, 2000, 0.02); n != 2 {
		t.Errorf("%d hedges after 100 more calls at 2 %%, want 2", n)
	}
}

func TestR10MaxExtraLoadBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perMille := rapid.IntRange(1, 1000).Draw(t, "fraction in thousandths")
		fraction := float64(perMille) / 1000
		var l Load
		called, hedged := 0, 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			n := rapid.IntRange(0, 30).Draw(t, "calls")
			calls(&l, n)
			called += n
			for range rapid.IntRange(0, 3).Draw(t, "hedges") {
				// So few calls stay below the limit of savings, so the number of hedges is exactly the share.
				want := called <= savedCalls && (hedged+1)*1000 <= called*perMille
				got := l.TryHedge(fraction)
				if called <= savedCalls && got != want {
					t.Fatalf("hedge %d of %d calls at %v: %v", hedged+1, called, fraction, got)
				}
				if got {
					hedged++
				}
			}
			if hedged*1000 > called*perMille {
				t.Fatalf("%d hedges of %d calls at %v", hedged, called, fraction)
			}
		}
	})
}

func TestR10MaxExtraLoadConcurrent(t *testing.T) {
	const workers, times = 8, 2000
	var l Load
	var hedged atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range times {
				l.Call()
				if l.TryHedge(0.1) {
					hedged.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := hedged.Load() + int64(hedges(&l, times, 0.1)); n != workers*times/10 {
		t.Errorf("%d hedges of %d calls at 10 %%", n, workers*times)
	}
}

func BenchmarkLoadCall(b *testing.B) {
	var l Load
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			l.Call()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.Call()
			}
		})
	})
}
