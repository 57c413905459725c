package hedge

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/internal/striped"
)

func relativeError(got, want time.Duration) float64 {
	return math.Abs(float64(got-want)) / float64(want)
}

func TestDigestZeroValue(t *testing.T) {
	var d Digest
	if q, n := d.Quantile(0.5); q != 0 || n != 0 {
		t.Errorf("%v of %d", q, n)
	}
}

func TestR10DigestIsBounded(t *testing.T) {
	if size := unsafe.Sizeof(digest{}); size > 4096 {
		t.Errorf("%d bytes", size)
	}
	if size := unsafe.Sizeof(stripe{}); size != 64 {
		t.Errorf("a stripe of %d bytes is not a cache line", size)
	}
}

// TestR10QuantileEqualsSorting checks that every quantile is within 5 % of the sorted latencies' quantile.
func TestR10QuantileEqualsSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Exponents, so that all magnitudes from 10 µs to 5 min are equally likely.
		exponents := rapid.SliceOfN(rapid.Float64Range(math.Log(10e3), math.Log(300e9)), 1, 600).Draw(t, "exponents")
		var d Digest
		all := make([]time.Duration, len(exponents))
		for i, e := range exponents {
			all[i] = time.Duration(math.Exp(e))
			d.Add(all[i])
			if i%100 == 0 {
				d.Quantile(0.5) // another quantile in between makes no difference
			}
		}
		slices.Sort(all)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		got, n := d.Quantile(q)
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		if n != len(all) || relativeError(got, want) > 0.05 {
			t.Fatalf("quantile %v = %v of %d, want %v of %d", q, got, n, want, len(all))
		}
	})
}

func TestDigestExtremes(t *testing.T) {
	tests := []struct {
		give   time.Duration
		lo, hi time.Duration
	}{
		{math.MinInt64, 8 * time.Microsecond, 9 * time.Microsecond},
		{0, 8 * time.Microsecond, 9 * time.Microsecond},
		{1, 8 * time.Microsecond, 9 * time.Microsecond},
		{10 * time.Microsecond, 9500, 10500},
		{5 * time.Minute, 285 * time.Second, 315 * time.Second},
		{math.MaxInt64, 8 * time.Minute, 10 * time.Minute},
	}
	for _, tt := range tests {
		if got, n := digestOf(tt.give).Quantile(1); n != 1 || got < tt.lo || got > tt.hi {
			t.Errorf("%v: %v, want %v to %v", tt.give, got, tt.lo, tt.hi)
		}
	}
}

func TestR10OldLatenciesFade(t *testing.T) {
	d := digestOf(repeat(100_000, time.Second)...)
	if q, n := d.Quantile(0.5); relativeError(q, time.Second) > 0.05 || n < windowSize || n > 2*windowSize {
		t.Fatalf("%v of %d", q, n)
	}
	added := 0
	for q := time.Second; relativeError(q, ms) > 0.05; added++ {
		d.Add(ms)
		q, _ = d.Quantile(0.5)
	}
	if added < windowSize/4 || added > 2*windowSize+striped.Stripes*pendingSize {
		t.Errorf("the median followed after %d latencies", added)
	}
	for range 2*windowSize + striped.Stripes*pendingSize {
		d.Add(ms)
	}
	if q, _ := d.Quantile(1); relativeError(q, ms) > 0.05 {
		t.Errorf("the slowest is still %v", q)
	}
}

// TestR10FadingKeepsTheTail: a rare slow call counts for at least a window, so that fading does not cut off the tail.
func TestR10FadingKeepsTheTail(t *testing.T) {
	var d Digest
	for i := range 10_000 {
		latency := ms
		if i%50 == 0 {
			latency = time.Second
		}
		d.Add(latency)
		if i < 2000 {
			continue
		}
		if q, _ := d.Quantile(0.99); relativeError(q, time.Second) > 0.05 {
			t.Fatalf("after %d: p99 = %v with 2 %% at 1s", i, q)
		}
		if q, _ := d.Quantile(0.95); relativeError(q, ms) > 0.05 {
			t.Fatalf("after %d: p95 = %v with 2 %% at 1s", i, q)
		}
	}
}

func TestR10FirstLatenciesCountAtOnce(t *testing.T) {
	var d Digest
	for i := range freshSamples {
		d.Add(ms)
		if _, n := d.Quantile(0.9); n != i+1 {
			t.Fatalf("%d latencies, want %d", n, i+1)
		}
	}
}

func TestQuantileIsCachedPerQuantile(t *testing.T) {
	d := digestOf(append(repeat(500, ms), repeat(500, time.Second)...)...)
	for range 3 {
		lo, _ := d.Quantile(0.1)
		hi, _ := d.Quantile(0.9)
		if relativeError(lo, ms) > 0.05 || relativeError(hi, time.Second) > 0.05 {
			t.Fatalf("%v and %v", lo, hi)
		}
	}
	if n := testing.AllocsPerRun(100, func() { d.Quantile(0.9) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDigestConcurrent(t *testing.T) {
	const workers, times = 8, 100
	var d Digest
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range times {
				d.Add(time.Duration(w+1) * 10 * ms)
				if q, n := d.Quantile(0.5); n < 1 || q < 9*ms || q > 85*ms {
					t.Errorf("%v of %d", q, n)
				}
			}
		})
	}
	wg.Wait()
	if n := d.data.Load().compute(0.5).samples; n != workers*times {
		t.Errorf("%d latencies, want %d", n, workers*times)
	}
}

func BenchmarkDigestAdd(b *testing.B) {
	var d Digest
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.Add(ms)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				d.Add(ms)
			}
		})
	})
}

// BenchmarkDigestAddAndQuantile is the digest's part of a hedged call: add a latency, read a percentile.
func BenchmarkDigestAddAndQuantile(b *testing.B) {
	d := digestOf(repeat(2000, ms)...)
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d.Add(ms)
			d.Quantile(0.95)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				d.Add(ms)
				d.Quantile(0.95)
			}
		})
	})
}
