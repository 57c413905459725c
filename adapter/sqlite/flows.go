package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/tenetdev/tenet/job"
)

var _ job.FlowStore = (*Jobs)(nil)

const (
	flowColumn = `CASE WHEN needed > 0 THEN (SELECT f.id FROM tenet_flow_node AS n JOIN tenet_flow AS f ON f.seq = n.flow WHERE n.job = tenet_job.seq) ELSE '' END`
	nodeColumn = `CASE WHEN needed > 0 THEN (SELECT n.name FROM tenet_flow_node AS n WHERE n.job = tenet_job.seq) ELSE '' END`

	addFlowSQL  = `INSERT INTO tenet_flow (id, created_at, layers, jobs) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING seq`
	movedSQL    = `SELECT job, flow, dependents FROM tenet_flow_node WHERE job IN (SELECT value FROM json_each(?))`
	atSQL       = `SELECT job, position, unmet, on_failure FROM tenet_flow_node WHERE flow = ? AND position IN (SELECT value FROM json_each(?))`
	unmetSQL    = `SELECT unmet FROM tenet_flow_node WHERE job = ?`
	unfreedSQL  = `WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'waiting' AND waits_for = 'needs'`
	recountSQL  = `UPDATE tenet_flow SET jobs = jobs + ?2, completed = completed + ?3, dead = dead + ?4, cancelled = cancelled + ?5 WHERE seq = ?1`
	finishedAll = `UPDATE tenet_flow SET finished_at = iif(completed + dead + cancelled = jobs, iif(finished_at > 0, finished_at, ?2), 0) WHERE seq = ?1`

	// doomedSQL adds to waiting jobs that are to be cancelled those that are cancelled because of them. In another order of the joins it
	// would read the whole flow for each of them.
	doomedSQL = `WITH RECURSIVE doomed (position) AS (SELECT value FROM json_each(?2)
UNION SELECT d.value FROM doomed CROSS JOIN tenet_flow_node AS n ON n.flow = ?1 AND n.position = doomed.position CROSS JOIN json_each(n.dependents) AS d
CROSS JOIN tenet_flow_node AS x ON x.flow = ?1 AND x.position = d.value CROSS JOIN tenet_job AS j ON j.seq = x.job
WHERE x.on_failure = 'cancel' AND j.state = 'waiting')
SELECT n.job FROM doomed JOIN tenet_flow_node AS n ON n.flow = ?1 AND n.position = doomed.position`

	dropNodesSQL     = `DELETE FROM tenet_flow_node WHERE job IN (SELECT value FROM json_each(?))`
	forgetFlowSQL    = `DELETE FROM tenet_flow WHERE seq = ? AND jobs <= 0`
	finishedFlowsSQL = `WHERE seq IN (SELECT j.seq FROM tenet_flow AS f INDEXED BY tenet_flow_finished CROSS JOIN tenet_flow_node AS n ON n.flow = f.seq
CROSS JOIN tenet_job AS j ON j.seq = n.job AND j.state = ?1 WHERE f.finished_at > 0 AND f.finished_at <= ?2
AND CASE ?1 WHEN 'completed' THEN f.completed WHEN 'dead' THEN f.dead ELSE f.cancelled END > 0 LIMIT ?3 + 0)`
)

var (
	addNodesSQL = newBulk(9, `INSERT INTO tenet_flow_node (job, flow, position, layer, unmet, on_failure, name, needs, dependents)
SELECT j.seq, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9 FROM (VALUES `, `) AS v JOIN tenet_job AS j ON j.id = v.column1`)
	setUnmetSQL = newBulk(2, `UPDATE tenet_flow_node SET unmet = v.column2 FROM (VALUES `, `) AS v WHERE job = v.column1`)
)

// EnqueueFlow implements job.FlowStore.
func (s *Jobs) EnqueueFlow(ctx context.Context, f job.NewFlow) (job.FlowReceipt, error) {
	return written(ctx, s, "enqueue a flow", func(q querier) (job.FlowReceipt, error) { return storeFlow(q, f, s.durability()) })
}

// EnqueueFlowTx stores a flow inside a transaction of DB.BeginTx, as [Jobs.EnqueueTx] does with jobs. Flows are checked as by
// job.Client.EnqueueFlow. If a flow with the ID exists, nothing is stored. After any other error roll the transaction back.
func (s *Jobs) EnqueueFlowTx(ctx context.Context, tx *sql.Tx, f *job.Flow) (receipt job.FlowReceipt, err error) {
	list, err := f.Inserts()
	switch {
	case err != nil:
		return receipt, err
	case tx == nil:
		return receipt, errNoTx
	}
	if err := s.check(ctx); err != nil {
		return receipt, err
	}
	q := newTransaction(ctx, tx)
	if receipt, err = storeFlow(q, list, job.InTransaction); err == nil {
		err = tend(q, now())
	}
	if err != nil {
		return job.FlowReceipt{}, s.db.wrap("enqueue a flow", err)
	}
	return receipt, nil
}

// storeFlow stores a flow unless its ID exists.
func storeFlow(q querier, f job.NewFlow, durability job.Durability) (job.FlowReceipt, error) {
	existed, seq := job.FlowReceipt{ID: f.ID, Existed: true}, int64(0)
	err := one(q, selection{text: addFlowSQL, args: []any{f.ID, now().UnixMicro(), f.Layers, len(f.Jobs)}, into: []any{&seq}})
	if err != nil || seq == 0 {
		return existed, err
	}
	inserts, nodes := make([]job.Insert, len(f.Jobs)), make([]any, 0, len(f.Jobs)*addNodesSQL.width)
	for i := range f.Jobs {
		in := &f.Jobs[i]
		inserts[i] = in.Insert
		nodes = append(nodes, in.ID, seq, int64(i+1), int64(in.Layer), int64(len(in.Needs)), string(in.OnFailure), in.Node, positions(in.Needs), positions(in.Dependents))
	}
	if _, err := enqueue(q, inserts, durability); err != nil {
		return existed, err
	}
	return job.FlowReceipt{ID: f.ID, Durability: durability}, addNodesSQL.exec(q, nodes)
}

func positions(list []int32) string {
	if len(list) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(list) // cannot fail for integers
	return string(text)
}

// movedFlow is what jobs of one flow that went to other states mean for the flow and its jobs.
type movedFlow struct {
	job.FlowInfo               // what is to be added
	ends         []end         // of jobs that others need
	dependents   map[int]*node // by position
}

// end is the end of a job, in a state; "" for a job that is removed.
type end struct {
	needed     job.Needed
	state      job.State
	dependents []int
}

// node is a dependent.
type node struct {
	job       int64 // tenet_job.seq
	unmet     int
	onFailure job.OnFailure
	met       bool // a need was met
	cancelled bool
}

// flowsMoved notes that jobs of flows went to other states. The end of a job frees or cancels its dependents.
func flowsMoved(q querier, moved []*entry) error {
	if len(moved) == 0 {
		return nil
	}
	bySeq := make(map[int64]*entry, len(moved))
	for _, e := range moved {
		bySeq[e.seq] = e
	}
	flows := map[int64]*movedFlow{}
	seq, flow, text := int64(0), int64(0), ""
	err := each(q, selection{text: movedSQL, args: []any{list(moved, seqOf)}, into: []any{&seq, &flow, &text}}, func() error {
		f, e := flows[flow], bySeq[seq]
		if f == nil {
			f = &movedFlow{dependents: map[int]*node{}}
			flows[flow] = f
		}
		f.Count(e.was, e.State)
		if e.needed <= job.NeededByNone || e.State != "" && !e.State.Finished() {
			return nil
		}
		x := end{needed: e.needed, state: e.State}
		if err := json.Unmarshal([]byte(text), &x.dependents); err != nil {
			return err
		}
		for _, at := range x.dependents {
			f.dependents[at] = nil
		}
		f.ends = append(f.ends, x)
		return nil
	})
	for seq, f := range flows {
		if err == nil {
			err = f.write(q, seq)
		}
	}
	return err
}

// write writes the counts of a flow, and frees or cancels dependents.
func (f *movedFlow) write(q querier, flow int64) error {
	at := now()
	if f.Jobs != 0 || f.Completed != 0 || f.Dead != 0 || f.Cancelled != 0 {
		if err := q.exec(recountSQL, flow, f.Jobs, f.Completed, f.Dead, f.Cancelled); err != nil {
			return err
		}
		if err := q.exec(finishedAll, flow, at.UnixMicro()); err != nil {
			return err
		}
	}
	if f.Jobs < 0 {
		if err := q.exec(forgetFlowSQL, flow); err != nil {
			return err
		}
	}
	if len(f.ends) == 0 {
		return nil
	}
	if err := f.judge(q, flow); err != nil {
		return err
	}
	var unmet []any
	var freed []int64
	var doomed []int
	for at, d := range f.dependents {
		switch {
		case d == nil: // removed
			continue
		case d.met:
			unmet = append(unmet, d.job, int64(d.unmet))
		}
		if d.cancelled {
			doomed = append(doomed, at)
		} else if d.met && d.unmet == 0 {
			freed = append(freed, d.job)
		}
	}
	if err := setUnmetSQL.exec(q, unmet); err != nil {
		return err
	}
	entries, err := waitingFor(q, freed)
	if err != nil {
		return err
	}
	for _, e := range entries {
		e.Release(at)
	}
	cancelled, err := doom(q, flow, doomed)
	if err != nil {
		return err
	}
	for _, e := range cancelled {
		e.CancelUnmet(at)
	}
	return save(q, append(entries, cancelled...))
}

// judge reads the dependents, and notes what the ends mean for each of them.
func (f *movedFlow) judge(q querier, flow int64) error {
	var at int
	var d node
	var onFailure string
	asked := make([]int64, 0, len(f.dependents))
	for position := range f.dependents {
		asked = append(asked, int64(position))
	}
	slices.Sort(asked)
	selected := selection{text: atSQL, args: []any{flow, list(asked, itself)}, into: []any{&d.job, &at, &d.unmet, &onFailure}}
	err := each(q, selected, func() error {
		one := d
		one.onFailure = job.OnFailure(onFailure)
		f.dependents[at] = &one
		return nil
	})
	for _, x := range f.ends {
		for _, at := range x.dependents {
			d := f.dependents[at]
			if d == nil {
				continue
			}
			if x.needed.Meets(x.state, d.onFailure) {
				d.met = true
				d.unmet--
			}
			d.cancelled = d.cancelled || x.needed.Cancels(x.state, d.onFailure)
		}
	}
	return err
}

// doom returns the waiting jobs among the positions that are to be cancelled, with those that are cancelled because of them.
func doom(q querier, flow int64, at []int) ([]*entry, error) {
	if len(at) == 0 {
		return nil, nil
	}
	waiting, err := column[int64](q, `SELECT n.position FROM tenet_flow_node AS n JOIN tenet_job AS j ON j.seq = n.job
WHERE n.flow = ?1 AND n.position IN (SELECT value FROM json_each(?2)) AND j.state = 'waiting' AND j.waits_for = 'needs'`, flow, list(at, func(at int) int64 { return int64(at) }))
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	seqs, err := column[int64](q, doomedSQL, flow, list(waiting, itself))
	if err != nil {
		return nil, err
	}
	return waitingFor(q, seqs)
}

// waitingFor reads those jobs that wait for needs, to be changed.
func waitingFor(q querier, seqs []int64) ([]*entry, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	found, err := read(q, stateColumns, unfreedSQL, list(seqs, itself))
	for _, e := range found {
		e.changed = true
	}
	return found, err
}

// hold makes a retried job wait if it has unmet needs.
func hold(q querier, action job.Action, e *entry) error {
	if action != job.ActionRetry || e.needed == job.NotInFlow {
		return nil
	}
	unmet := 0
	err := one(q, selection{text: unmetSQL, args: []any{e.seq}, into: []any{&unmet}})
	if unmet > 0 {
		e.Hold()
	}
	return err
}

const flowInfoColumns = `SELECT seq, id, created_at, layers, jobs, completed, dead, cancelled FROM tenet_flow `

// flowInfos reads flows.
func flowInfos(q querier, from string, args ...any) ([]job.FlowInfo, error) {
	var f job.FlowInfo
	into := []any{&f.Cursor, &f.ID, (*instant)(&f.CreatedAt), &f.Layers, &f.Jobs, &f.Completed, &f.Dead, &f.Cancelled}
	return all(q, selection{text: flowInfoColumns + from, args: args, into: into}, &f)
}

// Flow implements job.FlowStore.
func (s *Jobs) Flow(ctx context.Context, id string) (status job.FlowStatus, err error) {
	err = s.view(ctx, "flow", func(q querier) error {
		found, err := flowInfos(q, `WHERE id = ?`, id)
		if err == nil && len(found) == 0 {
			err = &job.NotFoundError{What: "flow", ID: id}
		}
		if err != nil {
			return err
		}
		status = job.FlowStatus{FlowInfo: found[0]}
		layer, state, n := 0, job.State(""), 0
		return each(q, selection{text: `SELECT n.layer, j.state, count(*) FROM tenet_flow_node AS n JOIN tenet_job AS j ON j.seq = n.job WHERE n.flow = ? GROUP BY n.layer, j.state ORDER BY n.layer`,
			args: []any{status.Cursor}, into: []any{&layer, &state, &n}}, func() error {
			status.Add(layer, state, n)
			return nil
		})
	})
	return status, err
}

// Flows implements job.FlowStore.
func (s *Jobs) Flows(ctx context.Context, query job.FlowQuery) ([]job.FlowInfo, error) {
	return viewed(ctx, s, "flows", func(q querier) ([]job.FlowInfo, error) {
		return flowInfos(q, `WHERE ?1 = 0 OR seq < ?1 ORDER BY seq DESC LIMIT ?2 + 0`, query.Below, cmp.Or(max(query.Limit, 0), 100))
	})
}

const nodeSelect = `SELECT n.position, n.name, n.layer, n.unmet, n.on_failure, n.needs, json_array_length(n.dependents), j.id, j.type, j.state, iif(?5, j.output, NULL)
FROM tenet_flow_node AS n JOIN tenet_job AS j ON j.seq = n.job WHERE n.position > ?2 AND (?3 = '' OR n.name = ?3) AND `

// FlowNodes implements job.FlowStore.
func (s *Jobs) FlowNodes(ctx context.Context, query job.NodeQuery) (page []job.FlowNode, err error) {
	text, of := `n.flow = ?1`, query.Flow
	find := `SELECT seq FROM tenet_flow WHERE id = ?`
	if query.Flow == "" {
		column := `needs`
		if of = query.NeededBy; of == "" {
			of, column = query.DependsOn, `dependents`
		}
		find = `SELECT n.job FROM tenet_flow_node AS n JOIN tenet_job AS j ON j.seq = n.job WHERE j.id = ?`
		text = `n.flow = (SELECT flow FROM tenet_flow_node WHERE job = ?1) AND n.position IN (SELECT v.value
FROM tenet_flow_node AS me CROSS JOIN json_each(me.` + column + `) AS v CROSS JOIN tenet_flow_node AS x ON x.flow = me.flow AND x.position = v.value
WHERE me.job = ?1 AND v.value > ?2 AND (?3 = '' OR x.name = ?3) LIMIT ?4 + 0)`
	}
	err = s.view(ctx, "flow nodes", func(q querier) error {
		seq := int64(0)
		if err := one(q, selection{text: find, args: []any{of}, into: []any{&seq}}); err != nil {
			return err
		}
		if seq == 0 {
			return query.NotFound()
		}
		var n job.FlowNode
		needs := ""
		into := []any{&n.Position, &n.Node, &n.Layer, &n.Unmet, &n.OnFailure, &needs, &n.Dependents, &n.JobID, &n.Type, &n.State, &n.Output}
		args := []any{seq, query.After, query.Node, cmp.Or(max(query.Limit, 0), 1000), query.Outputs}
		return each(q, selection{text: nodeSelect + text + ` ORDER BY n.position LIMIT ?4 + 0`, args: args, into: into}, func() error {
			page = append(page, n)
			return json.Unmarshal([]byte(needs), &page[len(page)-1].Needs)
		})
	})
	return page, err
}
