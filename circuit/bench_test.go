package circuit

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
)

func BenchmarkSuccess(b *testing.B) {
	for _, c := range []policy.Circuit{consecutive(5, 1), rate(0.5, 20), slow(0.5, 20)} {
		breaker := New(c)
		// A constant time: the benchmark measures the breaker and not the clock.
		const now = time.Second
		success := func() {
			ticket, _, ok := breaker.Acquire(now, false)
			if !ok {
				b.Error("refused")
			}
			breaker.Done(ticket, Success, ms, now)
		}
		b.Run(string(c.Kind)+"/serial", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				success()
			}
		})
		b.Run(string(c.Kind)+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					success()
				}
			})
		})
	}
}

func BenchmarkFailure(b *testing.B) {
	breaker := New(rate(1, 1<<30))
	b.ReportAllocs()
	for b.Loop() {
		ticket, _, _ := breaker.Acquire(sec, false)
		breaker.Done(ticket, Failure, ms, sec)
	}
}
