package limit

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/policy"
)

func BenchmarkSuccess(b *testing.B) {
	for name, p := range map[string]policy.Limit{
		"concurrency": {Concurrency: 1000},
		"rate":        {Rate: policy.Rate{Count: 1_000_000, Per: time.Second, Burst: 1_000_000}},
		"adaptive":    {Concurrency: 1000, Adaptive: policy.Adaptive{Enabled: true, Min: 1, Initial: 100}},
	} {
		b.Run(name, func(b *testing.B) {
			l, now := New(p, 0), time.Duration(0)
			for b.Loop() {
				now += time.Microsecond
				if !l.TryEnter() {
					b.Fatal("refused")
				}
				if _, _, ok := l.Turn(now, 0); !ok {
					b.Fatal("no turn")
				}
				l.Leave(Measured, time.Microsecond, now)
			}
		})
	}
}
