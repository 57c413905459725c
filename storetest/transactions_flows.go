package storetest

import (
	"cmp"
	"errors"

	"github.com/tenetdev/tenet/job"
)

// flowStore returns the store, or skips the case for one without flows.
func (s *transactions) flowStore() job.FlowStore {
	s.Helper()
	return optional[job.FlowStore](s, s.Jobs)
}

func (s *transactions) commitFlow() {
	store := s.flowStore()
	flow := func(id string, more ...job.FlowJob) *job.Flow {
		f := &job.Flow{ID: id}
		f.Add(job.FlowJob{Node: "all", Needs: []string{`a "\', {}`, "b"}, OnFailure: job.FailureRun, Request: job.Request{Type: "t"}})
		f.Group(nil, job.FlowJob{Node: `a "\', {}`, Request: job.Request{Type: "t"}}, job.FlowJob{Node: "b", Request: job.Request{Type: "t"}})
		f.Jobs = append(f.Jobs, more...)
		return f
	}
	tx := s.begin()
	_, err := tx.EnqueueFlowTx(flow("no", job.FlowJob{Node: "c", Needs: []string{"d"}, Request: job.Request{Type: "t"}}))
	if e, ok := errors.AsType[*job.FlowError](err); !ok || e.Node != "c" {
		s.Fatalf("a flow with an unknown need: %v", err)
	}
	if _, err := tx.EnqueueFlowTx(nil); err == nil {
		s.Fatal("a nil flow was accepted")
	}
	receipt, err := tx.EnqueueFlowTx(flow("f"))
	if err != nil || receipt != (job.FlowReceipt{ID: "f", Durability: job.InTransaction}) {
		s.Fatalf("%+v, %v", receipt, err)
	}
	s.must(errorOf(store.Flow(s.Context(), "f")), job.ErrNotFound)
	s.ok(tx.Rollback())
	s.stored(0)
	tx = s.begin()
	receipt, err = tx.EnqueueFlowTx(flow("f"))
	again, failed := tx.EnqueueFlowTx(flow("f"))
	s.ok(err, failed, tx.Commit())
	if receipt.Existed || !again.Existed || again.ID != "f" {
		s.Fatalf("%+v, then %+v", receipt, again)
	}
	nodes, err := store.FlowNodes(s.Context(), job.NodeQuery{Flow: "f"})
	if err != nil || len(nodes) != 3 {
		s.Fatalf("%+v, %v", nodes, err)
	}
	for i, want := range []job.FlowNode{
		{Node: "all", Layer: 2, State: job.Waiting, OnFailure: job.FailureRun, Unmet: 2},
		{Node: `a "\', {}`, Layer: 1, State: job.Ready, OnFailure: job.FailureCancel, Dependents: 1},
		{Node: "b", Layer: 1, State: job.Ready, OnFailure: job.FailureCancel, Dependents: 1},
	} {
		n := nodes[i]
		if n.Node != want.Node || n.Layer != want.Layer || n.State != want.State || n.OnFailure != want.OnFailure || n.Unmet != want.Unmet || n.Dependents != want.Dependents {
			s.Errorf("J20: %+v, want %+v", n, want)
		}
	}
	for range 3 { // those that need nothing, then the last
		r := s.claim(job.DefaultQueue)
		same(s, "J20: jobs claimed", len(r), 1)
		s.ok(s.Jobs.Settle(s.Context(), []job.Settlement{{Ref: r[0].Ref(), Kind: job.KindComplete}})...)
	}
	if status, err := store.Flow(s.Context(), "f"); err != nil || status.State() != job.FlowCompleted {
		s.Fatalf("J20: %+v, %v", status, err)
	}
}

// completeNeed checks that a job runs after its need if the transaction that completed the need commits, and not before.
func (s *transactions) completeNeed() {
	store := s.flowStore()
	f := &job.Flow{ID: "f"}
	other := job.Request{Type: "other"}
	f.Chain(nil, job.FlowJob{Node: "need", Request: job.Request{Type: "t", Payload: 7}}, job.FlowJob{Node: "after", Request: other})
	f.Add(job.FlowJob{Node: "both", Needs: []string{"need", "open"}, Request: other})
	f.Add(job.FlowJob{Node: "open", Request: other})
	_, err := job.NewClient(s.Jobs).EnqueueFlow(s.Context(), f)
	s.ok(err)
	check := func(when string, want job.State, unmet int) {
		s.Helper()
		list, err := store.FlowNodes(s.Context(), job.NodeQuery{Flow: "f"})
		nodes := map[string]job.FlowNode{}
		for _, n := range list {
			nodes[n.Node] = n
		}
		if both := nodes["both"]; err != nil || nodes["after"].State != want || both.State != job.Waiting || both.Unmet != unmet {
			s.Errorf("J20: %s: %+v, %v", when, list, err)
		}
	}
	s.work(func(j job.Job[int], stop func()) error {
		tx, err := s.start()
		if err != nil {
			stop()
			return err
		}
		s.report("CompleteTx", cmp.Or(tx.CompleteTx(j.Lease()), tx.CompleteTx(j.Lease())))
		check("before the commit", job.Waiting, 2)
		if j.Attempt == 1 {
			err = tx.Rollback()
			check("after the rollback", job.Waiting, 2)
			return errors.Join(errWithdrawn, err)
		}
		defer stop()
		err = tx.Commit()
		check("after the commit", job.Ready, 1)
		return err
	})
	check("at the end", job.Ready, 1)
}
