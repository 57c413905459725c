package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// openNew opens a new file.
func openNew(t *testing.T, o Options) *DB {
	t.Helper()
	o.Create = true
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// recorder runs statements in a transaction and keeps the plan of each.
type recorder struct {
	*transaction
	t     *testing.T
	plans map[string][]string // by statement
}

// recording returns a recorder whose transaction is rolled back at the end of the test.
func recording(t *testing.T, db *DB) *recorder {
	t.Helper()
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return &recorder{transaction: newTransaction(context.Background(), tx), t: t, plans: map[string][]string{}}
}

func (r *recorder) exec(text string, args ...any) error {
	r.explain(text, args)
	return r.transaction.exec(text, args...)
}

func (r *recorder) update(text string, args ...any) (int64, error) {
	r.explain(text, args)
	return r.transaction.update(text, args...)
}

func (r *recorder) explain(text string, args []any) {
	r.t.Helper()
	rows, err := r.tx.QueryContext(r.ctx, `EXPLAIN QUERY PLAN `+text, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	var id, parent, unused int
	var detail string
	var plan []string
	err = drain(rows, []any{&id, &parent, &unused, &detail}, func() error { plan = append(plan, detail); return nil })
	if err != nil {
		r.t.Fatal(err)
	}
	r.plans[text] = plan
}

func backlog(t *testing.T, n int) *DB {
	t.Helper()
	db := openNew(t, Options{})
	// Of each hundred jobs 90 are ready, 3 scheduled, 1 runs, 4 are completed, one is dead and one cancelled.
	err := db.jobs.write(t.Context(), "backlog", func(q querier) error {
		return q.exec(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)
INSERT INTO tenet_job (id, queue, state, priority, run_at, max_attempts, created_at, type, timeout, unique_key, unique_for, payload, lease_until, finished_at, fence)
SELECT printf('01990000-0000-7000-8000-%012x', i), 'q' || (i % 3), CASE WHEN i % 100 < 90 THEN 'ready' WHEN i % 100 < 93 THEN 'scheduled'
WHEN i % 100 = 93 THEN 'running' WHEN i % 100 < 98 THEN 'completed' WHEN i % 100 = 98 THEN 'dead' ELSE 'cancelled' END, i % 10,
iif(i % 100 BETWEEN 90 AND 92, 4000000000000000, 0) + i, 0, i, 't', 0, iif(i % 7, '', 'k' || i), 0, x'7b7d', iif(i % 100 = 93, 1 + i, 0), iif(i % 100 > 93, 1 + i, 0), 1
FROM n`, n)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"payload.n", "meta.tenant"} {
		if err := db.jobs.SetIndex(t.Context(), field, true); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestJ10PlansTouchOnlyWhatTheyTake checks, on 100,000 jobs (20,000 with -short), that no hot statement scans or sorts: it reads
// only the rows that it takes. Plans are the same with and without statistics, and over 1,000 jobs.
func TestJ10PlansTouchOnlyWhatTheyTake(t *testing.T) {
	samePlans{fill: backlog, plans: hotPlans}.check(t, short(100_000, 20_000), 1000)
}

// TestJ19PlansDoNotDependOnTheBlockedJobs: no statement that claims, settles or maintains beside blocked jobs, and none that lets them go
// on, scans or sorts; their plans are the same over 20,000 blocked jobs (4,000 with -short) as over 500.
func TestJ19PlansDoNotDependOnTheBlockedJobs(t *testing.T) {
	samePlans{fill: blocked, plans: gatePlans}.check(t, short(20_000, 4000), 500)
}

// TestJ20EachDoomedJobIsFoundByItsPosition: cancelling what needs a failed job does not go through the flow for each of them.
func TestJ20EachDoomedJobIsFoundByItsPosition(t *testing.T) {
	q := recording(t, backlog(t, 1))
	q.explain(doomedSQL, []any{1, "[2]"})
	for _, step := range q.plans[doomedSQL] {
		if strings.HasPrefix(step, "SEARCH x") && !strings.Contains(step, "position=?") {
			t.Errorf("%s in %s", step, strings.Join(q.plans[doomedSQL], " | "))
		}
	}
}

// short returns a size, or with -short a smaller one.
func short(size, smaller int) int {
	if testing.Short() {
		return smaller
	}
	return size
}

// samePlans compares the plans of statements over files of several sizes, with and without statistics.
type samePlans struct {
	fill  func(t *testing.T, jobs int) *DB
	plans func(t *testing.T, db *DB) map[string][]string // by statement
}

func (s samePlans) check(t *testing.T, sizes ...int) {
	t.Helper()
	var first map[string][]string
	for _, jobs := range sizes {
		db := s.fill(t, jobs)
		for _, analyze := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d jobs, statistics %v", jobs, analyze), func(t *testing.T) {
				if analyze {
					if err := db.jobs.write(t.Context(), "analyze", func(q querier) error { return q.exec(`ANALYZE`) }); err != nil {
						t.Fatal(err)
					}
				}
				plans := s.plans(t, db)
				if first == nil {
					first = plans
				}
				for text, plan := range plans {
					if slices.ContainsFunc(plan, expensive) {
						t.Errorf("%.200s\nis planned as %s", text, strings.Join(plan, " | "))
					}
					if before, known := first[text]; known && !slices.Equal(before, plan) {
						t.Errorf("%.200s\nwas planned as %v, now as %v", text, before, plan)
					}
				}
			})
		}
	}
}

const blockedKeys = 100

// blocked makes a file with n jobs of 100 keys of which one each has a place, and with 10 jobs of each other key and of another type.
func blocked(t *testing.T, n int) *DB {
	t.Helper()
	db := openNew(t, Options{Synchronous: Normal})
	for _, l := range []policy.JobLimit{{Name: "key", Key: []string{"meta.k"}, Concurrency: 1}, {Name: "rate", Key: []string{"meta.k"}, Rate: policy.Rate{Count: 1, Per: time.Hour, Burst: 2}}} {
		if err := db.jobs.SetLimit(t.Context(), job.LimitSetting{LimitName: job.LimitName{Type: "t", Name: l.Name}, Limit: &l}); err != nil {
			t.Fatal(err)
		}
	}
	var list []job.Insert
	add := func(key, jobType string) {
		id := fmt.Sprintf("01990000-0000-7000-8000-%012x", len(list))
		list = append(list, job.Insert{ID: id, Queue: "q", Type: jobType, Meta: map[string]string{"k": key}, MaxAttempts: 9})
	}
	for i := range n {
		add(fmt.Sprint(i%blockedKeys), "t")
	}
	for i := range 10 {
		add(fmt.Sprint("own ", i), "t")
		add("", "u")
	}
	if _, err := db.jobs.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return db
}

// gatePlans claims and settles the jobs with places, lets the next ones go on, and returns the plans of all statements.
func gatePlans(t *testing.T, db *DB) map[string][]string {
	t.Helper()
	q := recording(t, db)
	at := now()
	for round, want := range []int{blockedKeys + 20, blockedKeys, 0, blockedKeys} {
		if round == 3 { // the rate has places again
			at = at.Add(time.Hour)
			if _, err := maintain(q, job.Maintenance{Limit: 1000}, at); err != nil {
				t.Fatal(err)
			}
		}
		claimed, err := claim(q, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1000}}, Types: []string{"t", "u"}, Lease: time.Minute}, at)
		if err != nil || len(claimed) < want || len(claimed) > want+10 {
			t.Fatalf("round %d: claimed %d, want %d; %v", round, len(claimed), want, err)
		}
		var settlements []job.Settlement
		for i, r := range claimed {
			settlements = append(settlements, job.Settlement{Ref: r.Ref(), Kind: []job.Kind{job.KindComplete, job.KindRetry, job.KindDead}[i%3], Delay: 10 * time.Hour})
		}
		if errs, err := settle(q, settlements, at); errs != nil || err != nil {
			t.Fatal(errs, err)
		}
		if err := tend(q, at); err != nil {
			t.Fatal(err)
		}
	}
	return q.plans
}

// expensive reports whether a step of a plan reads more rows than its statement takes. Scans of the parameters, of found rows
// and of the totals, which have a row for each queue, do not. A merge and the work of the gate are read as far as a limit.
func expensive(step string) bool {
	for _, fine := range []string{"SCAN json_each", "SCAN v", "SCAN found", "SCAN head", "SCAN tenet_total", "SCAN (subquery", "SCAN tenet_gate_work", "CONSTANT ROW", "VALUES CLAUSE"} {
		if strings.Contains(step, fine) {
			return false
		}
	}
	return strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE")
}

// hotPlans runs all operations of workers and returns the plans of all statements.
func hotPlans(t *testing.T, db *DB) map[string][]string {
	t.Helper()
	q := recording(t, db)
	at := now()
	claimed, err := claim(q, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q1", Free: 100}}, Lease: time.Minute}, at)
	if err != nil || len(claimed) != 100 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	var leases []job.Ref
	var settlements []job.Settlement
	for i, r := range claimed {
		leases = append(leases, r.Ref())
		settlements = append(settlements, job.Settlement{Ref: r.Ref(), Kind: []job.Kind{job.KindComplete, job.KindRetry, job.KindDead}[i%3], Delay: time.Second})
	}
	if errs, err := extend(q, leases, time.Hour, at); errs != nil || err != nil {
		t.Fatal(errs, err)
	}
	if errs, err := settle(q, settlements, at); errs != nil || err != nil {
		t.Fatal(errs, err)
	}
	stepRedrives(t, q, at)
	keep := map[job.State]time.Duration{job.Completed: 0, job.Dead: 0, job.Cancelled: 0}
	done, err := maintain(q, job.Maintenance{Limit: 1000, Keep: keep}, at.Add(2*time.Second))
	if err != nil || done.Promoted == 0 || done.Reclaimed == 0 || done.Removed == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := enqueue(q, []job.Insert{{ID: "x", Type: "t", Queue: "q", UniqueKey: "k"}, {ID: "y", Type: "t", Queue: "q"}}, ""); err != nil {
		t.Fatal(err)
	}
	for _, f := range []job.Filter{
		{}, {States: []job.State{job.Dead}}, {Queue: "q1", Type: "t", ErrorContains: "x"}, {IDs: []string{"x", "y"}}, {States: []job.State{job.Ready, job.Running}},
	} {
		from, args, err := matching(f, "0199")
		if err != nil {
			t.Fatal(err)
		}
		q.explain(`SELECT seq FROM tenet_job `+from+` ORDER BY id LIMIT ? + 0`, append(args, 10))
	}
	q.explain(totalsSQL, nil)
	q.explain(oldestSQL, nil)
	for _, text := range []string{"", "state:dead", "payload.n:1", "payload.n:1,2,3", "meta.tenant:acme state:ready"} {
		f, err := job.ParseFilter(text, at)
		if err != nil {
			t.Fatal(err)
		}
		var indexed *filter.Term
		if len(f.Terms) > 0 {
			indexed = &f.Terms[0]
		}
		newest, args := newestSQL(f, indexed, aboveAll)
		q.explain(newest, append(args, 10))
	}
	return q.plans
}

// stepRedrives takes all kinds of steps of a redrive. Making one may read every dead job.
func stepRedrives(t *testing.T, q *recorder, at time.Time) {
	t.Helper()
	n := job.NewRedrive{ID: "01990000-0000-7000-9000-000000000001", RedrivePlan: job.RedrivePlan{MaxPending: 3}}
	if _, err := createRedrive(q.transaction, n); err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	if err := one(q.transaction, selection{text: `SELECT seq FROM tenet_redrive`, into: []any{&seq}}); err != nil {
		t.Fatal(err)
	}
	var total job.RedriveVerdict
	for range 2 {
		_, v, err := stepRedrive(q, n.ID, 0, at)
		if err != nil {
			t.Fatal(err)
		}
		total.Release += v.Release
	}
	step := redriveStep{q, seq, at}
	undone, _, err := step.Undo(0, 10)
	if err != nil || undone != 3 || total.Release != 3 {
		t.Fatalf("%d released, %d put back, %v", total.Release, undone, err)
	}
	if err := step.end([]redriven{{position: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := q.exec(unrefuse, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := readRedrives(q, activeSQL, aboveAll, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := readRedrives(q, redrivesSQL, aboveAll, 10); err != nil {
		t.Fatal(err)
	}
}

// query explains queries too, except the EXPLAIN queries themselves.
func (r *recorder) query(text string, args ...any) (*sql.Rows, error) {
	r.explain(text, args)
	return r.transaction.query(text, args...)
}
