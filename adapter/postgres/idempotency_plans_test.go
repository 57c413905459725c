package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/tenetdev/tenet/audit"
)

// TestI3PlansDoNotDependOnTheNumberOfRecords checks that no statement reads more than a small multiple of the rows that it
// returns, whatever the statistics are, with custom and generic plans. The same holds for audit events.
func TestI3PlansDoNotDependOnTheNumberOfRecords(t *testing.T) {
	ctx := context.Background()
	db := openEvents(t, "plans of keys")
	const fill = `INSERT INTO {{schema}}.idempotency (tenant, operation, key, fence, created, expires, attempts, state, owner, fingerprint, policy_hash)
SELECT 't', 'o', int8send(n), 1, now(), CASE WHEN n % 2 = 0 THEN now() - interval '1 hour' END, 1, 'completed', 'w', 'f', 'p' FROM generate_series(1, 20000) n`
	if _, err := db.pool.Exec(ctx, db.sql(fill)); err != nil {
		t.Fatal(err)
	}
	for chain := range 5 {
		if err := db.Audit().Append(ctx, events(fmt.Sprint("chain", chain), 1, 5000)); err != nil {
			t.Fatal(err)
		}
	}
	id := []any{"t", "o", `\x0000000000000064`}
	claim := append(id[:3:3], "w", 1)
	list := map[string]selection{
		"insert": {db.sql(insertRecordSQL), append(id[:3:3], "f", "w", "p", 1000)},
		"read":   {db.sql(readRecordSQL), id},
		"replace": {db.sql(replaceRecordSQL), append(claim[:5:5], "completed", "-infinity", "f", "released", "w", 2, "-infinity", 2, "p", true, "r",
			"t", "m", "-infinity", "-infinity", "-infinity")},
		"renew":  {db.sql(renewRecordSQL), append(claim[:5:5], 1000)},
		"settle": {db.sql(settleRecordSQL), append(claim[:5:5], "completed", true, "r", "t", "m", 1000)},
		"clear":  {db.sql(clearRecordSQL), claim},
		"expire": {db.sql(expireRecordsSQL), []any{batch}},
		"append": {db.sql(appendEventsSQL), eventTexts(events("new", 1, batch))},
		"heads":  {db.sql(headsSQL), nil},
		"events": {db.sql(readEventsSQL), []any{10_000, batch}},
	}
	for _, statistics := range []string{noStatistics, emptyStatistics, freshStatistics} {
		setStatistics(t, db, statistics)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			for name, q := range list {
				t.Run(fmt.Sprintf("%s/%s/statistics %s", name, mode, statistics), func(t *testing.T) {
					if plan, text := explain(t, db, q, mode); !plan.bounded(t) {
						t.Log(text)
					}
				})
			}
		}
	}
}

func eventTexts(entries []audit.Entry) []any { return literals(eventColumns(entries)) }
