package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

const (
	batch     = 100
	queues    = 4
	batchWork = 30 * batch // rows that a plan may read for a batch
)

// node is a node of a plan.
type node struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Index   string  `json:"Index Name"`
	Plans   []node  `json:"Plans"`
}

// TestJ10PlansDoNotDependOnTheBacklog checks that no hot statement, and no page of a list, reads or sorts more than a small
// multiple of the rows that it returns, whatever the statistics are, with custom and generic plans.
func TestJ10PlansDoNotDependOnTheBacklog(t *testing.T) {
	ctx := context.Background()
	db, err := Open(ctx, os.Getenv("DATABASE_URL"), Options{Schema: fmt.Sprint("plans", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
		t.Fatal(err)
	}
	leases := stock(t, db.jobs)
	for _, field := range []string{"payload.n", "meta.tenant"} {
		if err := db.jobs.SetIndex(ctx, field, true); err != nil {
			t.Fatal(err)
		}
	}
	redrive(t, db)
	lines(t, db)
	for _, statistics := range []string{noStatistics, emptyStatistics, freshStatistics} {
		setStatistics(t, db, statistics)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			for name, q := range planned(t, db, leases) {
				t.Run(fmt.Sprintf("%s/%s/statistics %s", name, mode, statistics), func(t *testing.T) {
					plan, text := explain(t, db, q, mode)
					if !plan.bounded(t) {
						t.Log(text)
					}
					if name == "newest of causes" && !strings.Contains(text, `"done_cause"`) { // few jobs are dead: all other indexes of them are bounded too
						t.Errorf("S8: %s", text)
					}
				})
			}
		}
		for name, q := range searches(t, db) {
			t.Run(fmt.Sprintf("%s/statistics %s", name, statistics), func(t *testing.T) {
				plan, text := explain(t, db, q, "force_custom_plan")
				if !plan.bounded(t) || strings.Contains(name, "indexed") && !strings.Contains(text, `"search_`) {
					t.Errorf("S8: %s", text)
				}
				if name == "search of a cause" && strings.Contains(text, `"Relation Name": "job"`) {
					t.Errorf("S8: jobs that did not die are candidates: %s", text)
				}
			})
		}
	}
}

const (
	noStatistics    = "none"
	emptyStatistics = "of empty tables" // as a vacuum leaves them that finds only deleted rows
	freshStatistics = "fresh"
)

func setStatistics(t *testing.T, db *DB, statistics string) {
	t.Helper()
	set := `SELECT`
	switch statistics {
	case emptyStatistics:
		set = `UPDATE pg_class SET reltuples = 0, relpages = 1 WHERE relnamespace = '{{schema}}'::regnamespace`
	case freshStatistics:
		set = `ANALYZE`
	}
	if _, err := db.pool.Exec(t.Context(), db.sql(set)); err != nil {
		t.Fatal(err)
	}
}

// searches returns the statements that find the candidates of searches.
func searches(t *testing.T, db *DB) map[string]selection {
	t.Helper()
	list := map[string]selection{}
	for name, text := range map[string]string{
		"search of all": "", "search of the dead": "state:dead,cancelled", "search of some states": "state:ready,scheduled,completed",
		"search of a cause":          "cause:" + job.CauseOf("boom", ""),
		"search of an indexed field": "payload.n:7", "search of an indexed field in metadata": "meta.tenant:acme", "search of indexed alternatives": "payload.n:7,8,none",
	} {
		f, err := job.ParseFilter(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var indexed *filter.Term
		if strings.Contains(name, "indexed") {
			indexed = &f.Terms[0]
		}
		q, err := newestSQL(f, indexed, "", batch)
		if err != nil {
			t.Fatal(err)
		}
		list[name] = selection{db.sql(q.text), q.args}
	}
	return list
}

// stock fills every table: ready and scheduled with 100,000 jobs each, or with -short 20,000, done with 10,000, running with 5,000. A
// plan that reads those of a queue reads more than batchWork. It returns live leases.
func stock(t *testing.T, store *Jobs) []job.Ref {
	t.Helper()
	ctx := context.Background()
	n, backlog := 0, 100_000
	if testing.Short() {
		backlog = 20_000
	}
	put := func(count int, change func(i int, in *job.Insert)) {
		list := make([]job.Insert, count)
		for i := range list {
			n++
			list[i] = job.Insert{ID: fmt.Sprintf("01990000-0000-7000-b000-%012x", n), Type: "t", Queue: fmt.Sprint("q", i%queues), Priority: i % 3, Payload: fmt.Appendf(nil, `{"n":%d}`, n%1000), Meta: map[string]string{"tenant": "acme"}}
			change(i, &list[i])
		}
		for len(list) > 0 {
			if _, err := store.Enqueue(ctx, list[:5000]); err != nil {
				t.Fatal(err)
			}
			list = list[5000:]
		}
	}
	put(15_000, func(i int, in *job.Insert) { in.Queue, in.UniqueKey = "first", fmt.Sprint("running", i) })
	claim := job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "first", Free: 15_000}}, Lease: time.Hour}
	list, err := store.Claim(ctx, claim)
	if err != nil || len(list) != 15_000 {
		t.Fatalf("claimed %d, %v", len(list), err)
	}
	var done []job.Settlement
	for i, r := range list[:10_000] {
		s := job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
		if i%25 == 0 {
			s.Kind, s.Error = job.KindDead, "boom"
		}
		done = append(done, s)
	}
	if errs := store.Settle(ctx, done); errs != nil {
		t.Fatal(errs[0])
	}
	put(backlog, func(i int, in *job.Insert) {
		in.Type = []string{"t", "u"}[i/queues%2]
		if i%1000 == 0 {
			in.UniqueKey = fmt.Sprint(i)
		}
	})
	later := time.Now().Add(time.Hour)
	put(backlog, func(i int, in *job.Insert) { in.RunAt = later.Add(time.Duration(i) * time.Second) })
	var leases []job.Ref
	for _, r := range list[10_000 : 10_000+batch] {
		leases = append(leases, r.Ref())
	}
	return leases
}

const redriveID = "01990000-0000-7000-c000-000000000001"

// redrive makes a redrive of the 400 dead jobs. 20 of them are pending; the first of these has 5,000 more rows.
func redrive(t *testing.T, db *DB) {
	t.Helper()
	ctx := context.Background()
	if _, err := db.jobs.CreateRedrive(ctx, job.NewRedrive{ID: redriveID, RedrivePlan: job.RedrivePlan{MaxPending: 20}}); err != nil {
		t.Fatal(err)
	}
	if state, _, err := db.jobs.StepRedrive(ctx, redriveID, 0); err != nil || state.Pending() != 20 || state.Left() != 380 {
		t.Fatalf("%+v, %v", state.RedriveCounts, err)
	}
	const more = `INSERT INTO {{schema}}.redrive_pending (redrive, position, job_id, fence, run_at, finished_at, attempts, refusals)
SELECT redrive, -i, job_id, fence, run_at, finished_at, attempts, refusals
FROM {{schema}}.redrive_pending, generate_series(1, 5000) i WHERE position = 1`
	if _, err := db.pool.Exec(ctx, db.sql(more)); err != nil {
		t.Fatal(err)
	}
}

const lined = 2000 // keys

// lines lets 6,000 jobs of 2,000 keys wait for a limit by key, and leaves events for the gate.
func lines(t *testing.T, db *DB) {
	t.Helper()
	ctx := context.Background()
	limit := job.LimitSetting{LimitName: job.LimitName{Queue: "lined", Name: "x"}, Limit: &policy.JobLimit{Name: "x", Key: []string{"meta.k"}, Concurrency: 1}}
	if err := db.jobs.SetLimit(ctx, limit); err != nil {
		t.Fatal(err)
	}
	list := make([]job.Insert, 4*lined)
	for i := range list {
		list[i] = job.Insert{ID: linedID(i), Type: "t", Queue: "lined", Meta: map[string]string{"k": fmt.Sprint(i % lined)}}
	}
	if _, err := db.jobs.Enqueue(ctx, list); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		done, err := db.jobs.Maintain(ctx, job.Maintenance{Limit: batch})
		if err != nil {
			t.Fatal(err)
		}
		more = done.More
	}
	if use, err := db.jobs.LimitUse(ctx, limit.LimitName, 1); err != nil || use.Held != lined || use.Waiting != 3*lined {
		t.Fatalf("%d places, %d jobs wait, %v", use.Held, use.Waiting, err)
	}
	if _, err := db.pool.Exec(ctx, db.sql(`INSERT INTO {{schema}}.gate_event (touched) SELECT ARRAY['c1 ' || i] FROM generate_series(1, 5000) i`)); err != nil {
		t.Fatal(err)
	}
}

func linedID(i int) string { return fmt.Sprintf("01990000-0000-7000-d000-%012x", i) }

// gated returns the statements that tend the gate.
func gated(t *testing.T, db *DB, running []pgtype.UUID) map[string]selection {
	t.Helper()
	rows, err := db.pool.Query(context.Background(), db.sql(`SELECT name FROM {{schema}}.bucket ORDER BY name LIMIT $1`), batch)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) != batch {
		t.Fatal(len(names), err)
	}
	ids, one, needs, times := make([]pgtype.UUID, batch), make([]int32, batch), make([]pgtype.Text, batch), make([]pgtype.Timestamptz, batch)
	ranks := make([]int16, batch)
	for i := range ids {
		ids[i], _ = parseID(linedID(2*lined + i))
		one[i], needs[i] = 1, text(names[i])
	}
	buckets := []any{names, one, one, one, times, times}
	return map[string]selection{
		"events": {db.sql(eventsSQL), []any{batch, batch}}, "due buckets": {db.sql(dueBucketsSQL), nil}, "arrived": {db.sql(arrivedSQL), []any{ids}},
		"buckets": {db.sql(bucketsSQL), []any{names}},
		"lines":   {db.sql(linesSQL), []any{names, one}}, "next place": {db.sql(nextPlaceSQL), nil}, "admit": {db.sql(admitSQL), []any{ids, needs}},
		"line up":        {db.sql(lineUpSQL), []any{ids, needs, needs, names, ranks, times, names, times}},
		"change buckets": {db.sql(changeBucketsSQL), buckets}, "drop buckets": {db.sql(dropBucketsSQL), []any{names}},
		"recall running": {db.sql(recallRunningSQL), []any{pgtype.UUID{Valid: true}}}, "recall ready": {db.sql(recallReadySQL), []any{pgtype.UUID{Valid: true}, "lined", ""}},
		"replace places": {db.sql(replaceSQL), []any{running, needs, names, names}},
		"recall waiting": {db.sql(recallWaitingSQL), []any{pgtype.UUID{Valid: true}, "lined", ""}},
		"touch a limit":  {db.sql(touchLimitSQL), []any{names[0][:2], names[0]}},
	}
}

// planned returns the statements with their arguments.
func planned(t *testing.T, db *DB, leases []job.Ref) map[string]selection {
	t.Helper()
	ids, fences := refColumns(leases)
	var settlements []job.Settlement
	for _, l := range leases {
		settlements = append(settlements, job.Settlement{Ref: l, Kind: job.KindRetry, Delay: time.Second, Error: "x"})
	}
	beginning := (&sweep{}).from(time.Now())
	reached := [job.MaxPriority + 1]position{1: {time.Now().Add(-time.Minute), ids[0]}}
	claim := func(onward bool, types ...string) selection {
		args := []any{"q1", batch, "w", time.Minute.Microseconds()}
		text := claimText{types: len(types)}
		if onward {
			var bounds []any
			text.positions, bounds = positionColumns(reached, len(types))
			args = append(args, bounds...)
		}
		for _, name := range types {
			args = append(args, name)
		}
		return selection{db.jobs.claimText(text), args}
	}
	const done = `SELECT id FROM {{schema}}.done WHERE unique_key IS NOT NULL ORDER BY id LIMIT $1`
	finished, err := db.pool.Query(context.Background(), db.sql(done), batch)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := pgx.CollectRows(finished, pgx.RowTo[pgtype.UUID])
	if err != nil || len(ended) != batch {
		t.Fatal(len(ended), err)
	}
	list := map[string]selection{
		"claim": claim(false, "t"), "onward": claim(true, "t"), "claim of a type without jobs": claim(false, "none"),
		"claim of several types": claim(false, "none", "t", "u"), "onward of several types": claim(true, "none", "t", "u"),
		"types":          {db.sql(typesSQL), []any{"q1"}},
		"extend":         {db.sql(extendSQL), []any{ids, fences, time.Minute.Microseconds()}},
		"settle":         {db.sql(settleSQL), settlementColumns(settlements)},
		"complete":       {db.sql(completeSQL), completionColumns(settlements)},
		"judge":          {db.sql(judgeSQL), []any{ids, fences, make([]pgtype.Text, len(ids))}},
		"judge burials":  {db.sql(judgeSQL), []any{ids, fences, slices.Repeat([]string{"bury"}, len(ids))}},
		"judge refusals": {db.sql(judgeSQL), []any{ids, fences, slices.Repeat([]string{"refuse"}, len(ids))}},
		"promote":        {db.sql(promoteSQL), []any{batch, beginning}},
		"reclaim":        {db.sql(reclaimSQL), reclaimArgs(batch, beginning)},
		"due":            {db.sql(nextDueSQL), []any{beginning}},
		"any due":        {db.sql(anyDueSQL), []any{beginning}},
		"remove":         {db.sql(removeSQL(job.Completed)), []any{time.Hour.Microseconds(), batch}},
		"remove dead":    {db.sql(removeSQL(job.Dead)), []any{time.Hour.Microseconds(), batch}},
		"history":        {db.sql(historySQL), []any{ids[0]}},
	}
	id, _ := parseID(redriveID)
	for name, q := range map[string]selection{
		"redrive": {redriveSQL + ` FOR UPDATE`, []any{id}}, "redrives": {redrivesSQL, []any{id, batch}}, "active redrives": {activeSQL, []any{id, batch}},
		"settled": {settledSQL, []any{id, -batch, batch}}, "release": {releasableSQL, []any{id, 20, 20 + batch}}, "retry": {inTable(retryFinishedSQL, "done"), []any{ended}},
		"undo": {undoSQL, []any{id, -batch, batch}}, "discard": {discardSQL, []any{id, 20, 20 + batch}}, "save a redrive": {saveSQL, []any{id, true, "{}"}},
		"newest of causes": {newestOfSQL, []any{[]string{job.CauseOf("boom", "")}, []string{"first"}, []string{"t"}, 3}}, "forget causes": {forgetCausesSQL, []any{1}},
		"not released": {unreleasedSQL, []any{id, 0, ids[:1]}},
	} {
		list[name] = selection{db.sql(q.text), q.args}
	}
	maps.Copy(list, gated(t, db, ids))
	ofCause, err := job.ParseFilter("cause:"+job.CauseOf("boom", ""), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const middle = "01990000-0000-7000-b000-000000006000" // 24,576, of the ready jobs: thousands of each queue follow
	for name, f := range map[string]job.Filter{
		"list all": {}, "list dead": {States: []job.State{job.Dead}}, "list a queue": {Queue: "q2", States: []job.State{job.Ready, job.Scheduled}},
		"list by ID": {IDs: []string{middle}}, "list running": {States: []job.State{job.Running}}, "list a cause": ofCause,
	} {
		after := middle
		if len(f.States) == 1 || f.IDs != nil || f.Terms != nil {
			after = ""
		}
		q, err := selectJobs(allColumns, f, after, batch)
		if err != nil {
			t.Fatal(err)
		}
		list[name] = selection{db.sql(q.text), q.args}
	}
	return list
}

// explain runs a statement under the settings of the store, rolls it back and returns its plan.
func explain(t *testing.T, db *DB, q selection, mode string) (node, string) {
	t.Helper()
	ctx := context.Background()
	var raw string
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		execute := "EXECUTE p"
		for i, a := range q.args {
			text, separator := fmt.Sprint(a), ","
			if array, ok := literals([]any{a})[0].(string); ok {
				text = array
			}
			switch a := a.(type) {
			case pgtype.UUID:
				text = a.String()
			case pgtype.Timestamptz:
				text = "-infinity"
			}
			if i == 0 {
				separator = "("
			}
			execute += separator + "'" + strings.ReplaceAll(text, "'", "''") + "'"
		}
		if len(q.args) > 0 {
			execute += ")"
		}
		for _, s := range []string{steady, "SET LOCAL plan_cache_mode = " + mode, "PREPARE p AS " + q.text} {
			if _, err := tx.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, FORMAT JSON) "+execute, pgx.QueryExecModeSimpleProtocol).Scan(&raw); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DEALLOCATE p"); err != nil {
			return err
		}
		return errRollback
	})
	if err != errRollback {
		t.Fatal(err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(raw), &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan, raw
}

type rollback struct{}

func (rollback) Error() string { return "roll back" }

var errRollback = rollback{}

// bounded checks every node of a plan. Reading the results of other nodes is as cheap as those nodes.
func (n node) bounded(t *testing.T) bool {
	t.Helper()
	ok := true
	unindexed := n.Table == "gate" || n.Table == "flow_change" // a row, and changes that are read together
	if n.Type == "Seq Scan" && !unindexed || strings.HasPrefix(n.Type, "Bitmap") {
		t.Errorf("%s on %s", n.Type, n.Table)
		ok = false
	}
	if work := (n.Rows + n.Removed) * n.Loops; work > batchWork {
		t.Errorf("%s on %s%s reads %v rows for %d", n.Type, n.Table, n.Index, work, batch)
		ok = false
	}
	for _, p := range n.Plans {
		ok = p.bounded(t) && ok
	}
	return ok
}
