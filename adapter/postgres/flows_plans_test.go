package postgres

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
)

// TestJ20PlansDoNotDependOnTheNumberOfFlows checks that no statement about flows, and not what ends of their jobs do, reads more than a
// small multiple of the rows that it returns or changes, whatever the statistics are.
func TestJ20PlansDoNotDependOnTheNumberOfFlows(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, os.Getenv("DATABASE_URL"), Options{Schema: fmt.Sprint("plans of flows", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
		t.Fatal(err)
	}
	firsts, last := stockFlows(t, db)
	list := map[string]selection{
		"lock nodes": {lockNodesSQL, []any{firsts}}, "drop nodes": {dropNodesSQL, []any{firsts}}, "add flows": {addFlowsSQL, []any{1}},
		"remove": {strings.ReplaceAll(removeOfFlowsSQL, `{{state}}`, "completed"), []any{0, batch}}, "forget flows": {forgetFlowsSQL, nil},
		"forget a flow": {forgetFlowSQL, []any{"f7"}}, "layers": {layersSQL, []any{7}}, "flows": {flowsSQL + pageOfFlowsSQL, []any{50, 10}},
		"nodes":      {fmt.Sprintf(nodesSQL, nodesOfFlowSQL+nodePageSQL), []any{"f7", 0, "", 10, false}},
		"needs":      {fmt.Sprintf(nodesSQL, neighboursSQL(true)+nodePageSQL), []any{last, 0, "", 10, false}},
		"dependents": {fmt.Sprintf(nodesSQL, neighboursSQL(false)+nodePageSQL), []any{firsts[0], 0, "", 10, false}},
	}
	waiting, err := db.pool.Query(ctx, db.sql(`SELECT id FROM {{schema}}.waiting ORDER BY id LIMIT $1`), batch)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(waiting, pgx.RowTo[pgtype.UUID])
	if err != nil || len(ids) != batch {
		t.Fatal(len(ids), err)
	}
	for _, a := range []job.Action{job.ActionDelete, job.ActionCancel, job.ActionRetry} {
		list[string(a)] = selection{inTable(changeSQL(a, "waiting"), "waiting"), []any{ids}}
	}
	for _, text := range []string{"state:waiting", "flow:f50"} {
		f, err := job.ParseFilter(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if list[text], err = selectJobs(allColumns, f, "", batch); err != nil {
			t.Fatal(err)
		}
	}
	for _, statistics := range []string{noStatistics, emptyStatistics, freshStatistics} {
		setStatistics(t, db, statistics)
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			for name, q := range list {
				t.Run(fmt.Sprintf("%s/%s/statistics %s", name, mode, statistics), func(t *testing.T) {
					if plan, text := explain(t, db, selection{db.sql(q.text), q.args}, mode); !plan.bounded(t) {
						t.Log(text)
					}
				})
			}
		}
		for _, state := range []job.State{job.Completed, job.Dead} {
			if n := readByEnds(t, db, firsts[:10], state); n > 10*flowWidth*8 {
				t.Errorf("10 jobs with %d dependents each that are %s: %d rows are read, with statistics %s", flowWidth, state, n, statistics)
			}
		}
	}
}

// flowWidth is the number of dependents of the first job of a flow of stockFlows.
const flowWidth = 100

// stockFlows stores flows, and returns the first job of each and the last of one.
func stockFlows(t *testing.T, db *DB) (firsts []pgtype.UUID, last pgtype.UUID) {
	t.Helper()
	for i := range batch {
		f := &job.Flow{ID: fmt.Sprint("f", i)}
		add := func(node string, needs ...string) {
			f.Jobs = append(f.Jobs, job.FlowJob{Request: job.Request{Type: "t"}, Node: node, Needs: needs})
		}
		add("first")
		add("second")
		for k := range flowWidth - 1 {
			add(fmt.Sprint(k), "first", "second")
		}
		add("sole", "first")
		in, err := f.Inserts()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.jobs.EnqueueFlow(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		first, _ := parseID(in.Jobs[0].ID)
		firsts = append(firsts, first)
		last, _ = parseID(in.Jobs[flowWidth].ID)
	}
	for _, text := range []string{
		`INSERT INTO {{schema}}.flow_change SELECT seq, 0, 0, 0, 0 FROM {{schema}}.flow`, `UPDATE {{schema}}.flow SET jobs = 0 WHERE seq < 10`,
		`UPDATE {{schema}}.flow SET finished_at = now(), completed = jobs WHERE seq > 60`,
		`WITH gone AS (DELETE FROM {{schema}}.waiting w USING {{schema}}.flow_node n WHERE n.job_id = w.id AND n.flow > 60 RETURNING w.*)
INSERT INTO {{schema}}.done (` + factColumns + `, needed, finished_at, state) SELECT ` + factColumns + `, needed, now(), 'completed' FROM gone`,
		`DELETE FROM {{schema}}.flow_change WHERE flow > 60`,
	} {
		if _, err := db.pool.Exec(t.Context(), db.sql(text)); err != nil {
			t.Fatal(err)
		}
	}
	return firsts, last
}

// readByEnds returns how many nodes are read when jobs have ended, which is undone.
func readByEnds(t *testing.T, db *DB, ids []pgtype.UUID, state job.State) (n int) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.ConnectConfig(ctx, db.pool.Config().ConnConfig) // a new one, without plans of the function
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		ended := db.sql(`SELECT {{schema}}.flow_ended($1, $2, $3)`)
		const read = `SELECT idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = '{{schema}}.flow_node'::regclass`
		states, needed := slices.Repeat([]string{string(state)}, len(ids)), slices.Repeat([]int16{2}, len(ids))
		if _, err := tx.Exec(ctx, ended, ids, states, needed); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, db.sql(read)).Scan(&n); err != nil {
			return err
		}
		return errRollback
	})
	if err != errRollback {
		t.Fatal(err)
	}
	return n
}
