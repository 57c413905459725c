package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

const (
	addFlowSQL = `INSERT INTO {{schema}}.flow (id, layers, jobs) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING RETURNING seq`
	// forgetFlowSQL forgets a flow whose jobs were all deleted, for which maintenance has had no time yet.
	forgetFlowSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.flow f WHERE f.id = $1 AND NOT EXISTS (
        SELECT FROM {{schema}}.flow_node n, LATERAL (SELECT FROM {{schema}}.job b WHERE b.id = n.job_id OFFSET 0) b
        WHERE n.flow = ANY (ARRAY[f.seq])) RETURNING seq
), nodes AS (
    DELETE FROM {{schema}}.flow_node n USING gone WHERE n.flow = ANY (ARRAY[gone.seq])
)
SELECT seq FROM gone`
	addNodesSQL = `
INSERT INTO {{schema}}.flow_node (flow, job_id, position, layer, unmet, on_failure, name, needs, dependents, sole)
SELECT $1::bigint, job_id, position, layer, nullif(unmet, -1), on_failure, name, needs::integer[], dependents::integer[], sole::uuid[]
FROM unnest($2::uuid[], $3::integer[], $4::integer[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
    AS n(job_id, position, layer, unmet, on_failure, name, needs, dependents, sole)`

	// flowChunk is the number of jobs of a flow that a statement stores.
	flowChunk = 10_000
)

// EnqueueFlow implements job.FlowStore.
func (j *Jobs) EnqueueFlow(ctx context.Context, f job.NewFlow) (receipt job.FlowReceipt, err error) {
	entries, err := prepareFlow(f)
	if err != nil {
		return receipt, err
	}
	err = j.transaction(ctx, "enqueue a flow", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, uncompiled); err != nil {
			return err
		}
		receipt, err = j.storeFlow(ctx, f, entries, j.pgxFlow(ctx, tx))
		return err
	})
	if err != nil || receipt.Existed {
		return receipt, err
	}
	if j.limits.known() {
		j.tendSoon(ctx)
	}
	if anyDue(entries) {
		j.bell.wake()
	}
	receipt.Durability = job.Fsynced
	if !j.durable {
		receipt.Durability = job.InMemory
	}
	return receipt, nil
}

// EnqueueFlowTx stores a flow as part of the caller's transaction, as [Jobs.EnqueueTx] does with jobs. Flows are checked as by
// job.Client.EnqueueFlow. If a flow with the ID exists, nothing is stored; a transaction that stores another flow under the same ID makes
// this one wait until it ends. For a transaction of database/sql use [Jobs.SQL].
func (j *Jobs) EnqueueFlowTx(ctx context.Context, tx pgx.Tx, f *job.Flow) (job.FlowReceipt, error) {
	if tx == nil {
		return job.FlowReceipt{}, errNoTx
	}
	return j.joinFlow(ctx, f, j.pgxFlow(ctx, tx))
}

// EnqueueFlowTx is [Jobs.EnqueueFlowTx] for a transaction of database/sql.
func (s SQLJobs) EnqueueFlowTx(ctx context.Context, tx *sql.Tx, f *job.Flow) (job.FlowReceipt, error) {
	if tx == nil {
		return job.FlowReceipt{}, errNoTx
	}
	j := s.jobs
	return j.joinFlow(ctx, f, flowWriter{sqlSession{tx}, literals, func(entries []entry) error {
		return j.enqueueSQL(ctx, tx, entries, make([]job.Receipt, len(entries)))
	}})
}

// flowWriter writes to a transaction.
type flowWriter struct {
	session
	columns func([]any) []any // writes columns as its driver takes them
	jobs    func([]entry) error
}

func (j *Jobs) pgxFlow(ctx context.Context, tx pgx.Tx) flowWriter {
	return flowWriter{pgxSession{tx}, func(columns []any) []any { return columns }, func(entries []entry) error {
		b := &pgx.Batch{}
		j.queue(b, entries, "")
		return tx.SendBatch(ctx, b).Close()
	}}
}

// joinFlow stores a flow in a transaction of the caller's.
func (j *Jobs) joinFlow(ctx context.Context, flow *job.Flow, w flowWriter) (job.FlowReceipt, error) {
	f, err := flow.Inserts()
	if err != nil {
		return job.FlowReceipt{}, err
	}
	entries, err := prepareFlow(f)
	if err != nil {
		return job.FlowReceipt{}, err
	}
	receipt, err := j.storeFlow(ctx, f, entries, w)
	if err == nil && !receipt.Existed && j.announce(entries) {
		_, err = w.exec(ctx, notifySQL, j.channel())
	}
	if err != nil {
		return job.FlowReceipt{}, j.db.wrap("enqueue a flow", err)
	}
	if !receipt.Existed {
		receipt.Durability = job.InTransaction
	}
	return receipt, nil
}

func prepareFlow(f job.NewFlow) ([]entry, error) {
	inserts := make([]job.Insert, len(f.Jobs))
	for i := range f.Jobs {
		inserts[i] = f.Jobs[i].Insert
	}
	return prepare(inserts)
}

// storeFlow stores a flow unless its ID exists.
func (j *Jobs) storeFlow(ctx context.Context, f job.NewFlow, entries []entry, w flowWriter) (job.FlowReceipt, error) {
	var seq int64
	add := func() (bool, error) {
		return w.row(ctx, []any{&seq}, j.db.sql(addFlowSQL), f.ID, f.Layers, len(f.Jobs))
	}
	added, err := add()
	if err == nil && !added {
		if added, err = w.row(ctx, []any{&seq}, j.db.sql(forgetFlowSQL), f.ID); added {
			added, err = add()
		}
	}
	if err != nil || !added {
		return job.FlowReceipt{ID: f.ID, Existed: err == nil}, err
	}
	for start := 0; start < len(entries) && err == nil; start += flowChunk {
		end := min(start+flowChunk, len(entries))
		if err = w.jobs(entries[start:end]); err == nil {
			_, err = w.exec(ctx, j.db.sql(addNodesSQL), append([]any{seq}, w.columns(nodeColumns(f, entries, start, end))...)...)
		}
	}
	return job.FlowReceipt{ID: f.ID}, err
}

// nodeColumns are the arguments of addNodesSQL, after the flow, for the jobs from start to end.
func nodeColumns(f job.NewFlow, entries []entry, start, end int) []any {
	n := end - start
	ids, positions, layers, unmet := make([]pgtype.UUID, n), make([]int32, n), make([]int32, n), make([]int32, n)
	modes, names, needs, dependents, sole := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		in := &f.Jobs[start+i]
		var others []int32 // which have other needs too
		var only []pgtype.UUID
		for _, at := range in.Dependents {
			if len(f.Jobs[at-1].Needs) == 1 {
				only = append(only, entries[at-1].id)
			} else {
				others = append(others, at)
			}
		}
		ids[i], positions[i], layers[i], unmet[i] = entries[start+i].id, int32(start+i+1), int32(in.Layer), int32(len(in.Needs))
		if len(in.Needs) == 1 {
			unmet[i] = -1
		}
		modes[i], names[i] = string(in.OnFailure), in.Node
		needs[i], dependents[i] = literal(in.Needs, number), literal(others, number)
		sole[i] = literal(only, func(v pgtype.UUID) (string, bool) { return v.String(), true })
	}
	return []any{ids, positions, layers, unmet, modes, names, needs, dependents, sole}
}
