package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
)

// BenchmarkAuditAppend appends batches of 1,000 events of 600 bytes.
func BenchmarkAuditAppend(b *testing.B) {
	db, _ := open(b)
	sink := db.Audit()
	line := make([]byte, 600)
	n := 0
	for b.Loop() {
		entries := make([]audit.Entry, 1000)
		for i := range entries {
			n++
			entries[i] = audit.Entry{Line: line, Event: &audit.Event{
				ID: fmt.Sprintf("01990000-0000-7000-8000-%012x", n), Type: audit.RetryAttempt, ChainID: "c", Seq: uint64(n), Hash: fmt.Sprintf("%064x", n),
				WorkID: fmt.Sprintf("01990000-0000-7000-9000-%012x", n/3), Category: "RETRY_API_READ", Time: time.Unix(int64(n), 0),
			}}
		}
		if err := sink.Append(b.Context(), entries); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}
