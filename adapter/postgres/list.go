package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

// place is a table of jobs and the states of its jobs.
type place struct {
	table  string
	states []job.State
}

// places lists the tables. Every job is in one of them at any moment.
func places() []place {
	return []place{
		{"waiting", []job.State{job.Waiting}},
		{"ready", []job.State{job.Ready}},
		{"scheduled", []job.State{job.Scheduled}},
		{"running", []job.State{job.Running}},
		{"done", []job.State{job.Completed, job.Dead, job.Cancelled}},
	}
}

// rows returns the table as a subquery with the same columns for all tables.
func (p place) rows() string {
	finished, lease, state, cause, waits := `NULL::timestamptz`, `NULL::timestamptz`, `'`+p.table+`'`, `NULL::text`, `NULL::text`
	switch p.table {
	case "done":
		finished, state, cause = `finished_at`, `state`, `cause`
	case "running":
		lease = `lease_until`
	case "waiting":
		waits = `waits_for`
	}
	return `(SELECT ` + factColumns + `, needed, ` + finished + ` AS finished_at, ` + lease + ` AS lease_until, ` + state + ` AS state, ` +
		cause + ` AS cause, ` + waits + ` AS waits_for FROM {{schema}}.` + p.table + `)`
}

// selection is a query for the jobs of a filter with its arguments.
type selection struct {
	text string
	args []any
}

// arg adds an argument and returns its placeholder.
func (q *selection) arg(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", len(q.args))
}

// selectJobs selects columns of at most limit jobs that match f and have IDs above after, in the order of their IDs.
func selectJobs(columns string, f job.Filter, after string, limit int) (selection, error) {
	q := selection{}
	if err := f.Check(); err != nil {
		return q, fmt.Errorf("postgres: %w", err)
	}
	var conditions []string
	where := func(format string, v any) { conditions = append(conditions, fmt.Sprintf(format, q.arg(v))) }
	if after != "" {
		id, ok := parseID(after)
		if !ok {
			return q, fmt.Errorf("postgres: list: cursor %q is not an ID", after)
		}
		where("s.id > %s", id)
	}
	if len(f.IDs) > 0 {
		ids := []pgtype.UUID{}
		for _, text := range f.IDs {
			if id, ok := parseID(text); ok {
				ids = append(ids, id)
			}
		}
		where("s.id = ANY (%s::uuid[])", ids)
	}
	if f.Queue != "" {
		where("s.queue = %s", f.Queue)
	}
	if f.Type != "" {
		where("b.type = %s", f.Type)
	}
	if f.ErrorContains != "" {
		where("strpos(s.last_error, %s) > 0", f.ErrorContains)
	}
	if !f.CreatedBefore.IsZero() { // rounds up: stored times are whole microseconds
		where("b.created_at < %s", f.CreatedBefore.Add(time.Microsecond-1))
	}
	if !f.CreatedAfter.IsZero() {
		where("b.created_at > %s", f.CreatedAfter)
	}
	for _, t := range f.Terms {
		conditions = append(conditions, q.term(t))
	}
	f.States = statesOf(f)
	n := q.arg(limit)
	var branches []string
	for _, p := range places() {
		wanted := slices.DeleteFunc(slices.Clone(p.states), func(s job.State) bool {
			return len(f.States) > 0 && !slices.Contains(f.States, s)
		})
		if len(wanted) == 0 {
			continue
		}
		own := conditions
		if len(wanted) < len(p.states) {
			own = append(slices.Clone(conditions), inStates(wanted))
		}
		branch := `(SELECT ` + columns + ` FROM ` + p.rows() + ` s JOIN {{schema}}.job b ON b.id = ANY (ARRAY[s.id])`
		if len(own) > 0 {
			branch += ` WHERE ` + strings.Join(own, ` AND `)
		}
		branches = append(branches, branch+` ORDER BY s.id LIMIT `+n+`)`)
	}
	if len(branches) == 0 {
		return selection{}, nil
	}
	q.text = `SELECT * FROM (` + strings.Join(branches, ` UNION ALL `) + `) j ORDER BY id LIMIT ` + n
	return q, nil
}

// statesOf returns the states of the jobs that f can select, none for all: no jobs but dead ones have a cause.
func statesOf(f job.Filter) []job.State {
	mayBeDead := len(f.States) == 0 || slices.Contains(f.States, job.Dead)
	if mayBeDead && slices.ContainsFunc(f.Terms, func(t filter.Term) bool { return t.Field == job.FieldCause }) {
		return []job.State{job.Dead}
	}
	return f.States
}

// inStates returns a condition on finished jobs in the form that the partial index needs.
func inStates(states []job.State) string {
	condition := `s.state IN (` + quoted(lists.Texts(states)...) + `)`
	if !slices.Contains(states, job.Completed) {
		condition += ` AND s.state <> 'completed'`
	}
	return condition
}

// List implements job.Admin. All states are read in one snapshot.
func (j *Jobs) List(ctx context.Context, f job.Filter, after string, limit int) ([]*job.Record, error) {
	j.catchUp(ctx)
	q, err := selectJobs(allColumns, f, after, max(limit, 0))
	if err != nil {
		return nil, err
	}
	var list []*job.Record
	b := steadyBatch()
	if q.text != "" {
		collect(b.Queue(j.db.sql(q.text), q.args...), &list, readRecord)
	}
	if err := j.db.run(ctx, "list", b); err != nil {
		return nil, err
	}
	return list, nil
}

func readRecord(columns pgx.CollectableRow) (*job.Record, error) {
	var r row
	if err := columns.Scan(r.all()...); err != nil {
		return nil, err
	}
	r.Fence = 0 // only Claim hands out leases
	return r.record()
}

const historySQL = `
SELECT number, fence, kind, worker, started, finished, reason, error, stack, delay, count, part
FROM {{schema}}.attempt WHERE job_id = $1
UNION ALL
SELECT attempts + 1, fence, 'complete', worker, completed_from, finished_at, reason, NULL, NULL, 0, 1, 1
FROM {{schema}}.done WHERE id = $1 AND completed_from IS NOT NULL
ORDER BY fence, part`

// Get implements job.Admin.
func (j *Jobs) Get(ctx context.Context, id string) (*job.Record, []job.Attempt, error) {
	j.catchUp(ctx)
	key, ok := parseID(id)
	if !ok {
		return nil, nil, &job.NotFoundError{What: "job", ID: id}
	}
	q, err := selectJobs(allColumns, job.Filter{IDs: []string{id}}, "", 1)
	if err != nil {
		return nil, nil, err
	}
	var list []*job.Record
	var history []job.Attempt
	b := &pgx.Batch{}
	b.Queue(`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`) // the job and its history belong together
	b.Queue(steady)
	collect(b.Queue(j.db.sql(q.text), q.args...), &list, readRecord)
	collect(b.Queue(j.db.sql(historySQL), key), &history, readAttempt)
	b.Queue(`COMMIT`)
	if err := j.db.run(ctx, "get", b); err != nil {
		return nil, nil, err
	}
	if len(list) == 0 {
		return nil, nil, &job.NotFoundError{What: "job", ID: id}
	}
	return list[0], list[0].History(history), nil
}

func readAttempt(rows pgx.CollectableRow) (job.Attempt, error) {
	var a job.Attempt
	part := 0
	err := rows.Scan(&a.Number, &a.Fence, (*zeronull.Text)(&a.Kind), (*zeronull.Text)(&a.Worker), (*instant)(&a.Started), (*instant)(&a.Finished),
		(*zeronull.Text)(&a.Reason), (*zeronull.Text)(&a.Error), (*zeronull.Text)(&a.Stack), &a.Delay, &a.Count, &part)
	switch {
	case part == 0:
		a.Fence, a.Outcome = 0, job.AttemptRefused
	case a.Kind == "":
		a.Outcome = job.AttemptLost
	default:
		a.Outcome = a.Kind.Outcome()
	}
	return a, err
}
