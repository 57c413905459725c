package audit_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/audit"
)

// perEvent reports events per second; run with -cpu 1 for the figure of one core.
func perEvent(b *testing.B, events int) {
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkVerify(b *testing.B) {
	log := plain(b, "a", 0, 50_000)
	b.SetBytes(int64(len(log[0]) * len(log)))
	for b.Loop() {
		if r, err := audit.Verify(context.Background(), log, audit.VerifyOptions{}); err != nil || !r.Intact() {
			b.Fatal(err, r)
		}
	}
	perEvent(b, len(log))
}
