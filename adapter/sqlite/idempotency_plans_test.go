package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// TestI3PlansTouchOnlyWhatTheyTake checks that no statement scans or sorts records or audit events, with and without
// statistics.
func TestI3PlansTouchOnlyWhatTheyTake(t *testing.T) {
	db := openNew(t, Options{})
	err := db.jobs.write(t.Context(), "fill", func(q querier) error {
		return q.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO tenet_audit (event_id, chain_id, seq, hash, event_type, category, work_id, time, line)
SELECT 'e' || i, 'c' || (i % 5), i, 'h', 't', '', 'w' || (i % 1000), i, x'7b7d' FROM n`)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, analyze := range []bool{false, true} {
		t.Run(fmt.Sprintf("statistics %v", analyze), func(t *testing.T) {
			if analyze {
				if err := db.jobs.write(t.Context(), "analyze", func(q querier) error { return q.exec(`ANALYZE`) }); err != nil {
					t.Fatal(err)
				}
			}
			q := recording(t, db)
			for i := range 200 {
				id := idempotency.ID{Tenant: "t", Operation: "o", Key: fmt.Sprint(i)}
				b, err := beginRecord(q, idempotency.BeginRequest{ID: id, Owner: "w", Lease: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				s := idempotency.Settlement{State: idempotency.Completed, TTL: time.Hour}
				if refused, err := stepRecord(q, id, settling(b.Record.Claim(), s)); refused != nil || err != nil {
					t.Fatal(refused, err)
				}
			}
			for _, s := range []string{removeRecordSQL, expireRecordsSQL, readEventsSQL, headsSQL} {
				q.explain(s, []any{"1", "2", "3"}[:strings.Count(s, "?")])
			}
			if len(q.plans) != 6 {
				t.Errorf("%d statements, want 6", len(q.plans))
			}
			for text, plan := range q.plans {
				plan = slices.DeleteFunc(plan, func(step string) bool {
					return step == "SCAN chain" || strings.HasPrefix(text, "WITH RECURSIVE chain") && step == "USE TEMP B-TREE FOR ORDER BY" // the heads
				})
				if slices.ContainsFunc(plan, expensive) {
					t.Errorf("%.200s\nis planned as %s", text, strings.Join(plan, " | "))
				}
			}
		})
	}
}
