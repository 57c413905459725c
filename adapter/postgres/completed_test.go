package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
)

// claimOne claims the only job.
func claimOne(t *testing.T, store *postgres.Jobs) *job.Record {
	t.Helper()
	list, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 10}}, Lease: time.Minute})
	if err != nil || len(list) != 1 {
		t.Fatalf("claimed %d, %v", len(list), err)
	}
	return list[0]
}

func settleOne(t *testing.T, store *postgres.Jobs, s job.Settlement) error {
	t.Helper()
	if errs := store.Settle(t.Context(), []job.Settlement{s}); errs != nil {
		return errs[0]
	}
	return nil
}

// TestJ7CompletionsAreRecognisedLater repeats completions: the store recognises them by their tokens, from the job's own row or,
// after the job was started again, from its history.
func TestJ7CompletionsAreRecognisedLater(t *testing.T) {
	db, _ := open(t)
	store := db.Jobs()
	in := insert()
	enqueue(t, store, in)
	var want []job.Attempt
	check := func() {
		t.Helper()
		_, got, err := store.Get(t.Context(), in.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("history (-want +got):\n%s", diff)
		}
	}
	complete := func(change func(*job.Settlement)) job.Settlement {
		t.Helper()
		r := claimOne(t, store)
		s := job.Settlement{Ref: r.Ref(), Kind: job.KindComplete, Reason: "success", Started: time.Microsecond}
		change(&s)
		if err := settleOne(t, store, s); err != nil {
			t.Fatal(err)
		}
		record, _, err := store.Get(t.Context(), in.ID)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, job.Attempt{
			Number: r.Failures + 1, Fence: r.Fence, Kind: job.KindComplete, Worker: "w", Started: r.ClaimedAt.Add(s.Started), Finished: record.FinishedAt,
			Outcome: job.AttemptCompleted, Reason: s.Reason, Error: s.Error, Stack: s.Stack, Delay: s.Delay, Count: 1,
		})
		check()
		return s
	}
	again := func() {
		t.Helper()
		if got, err := store.Change(t.Context(), job.ActionRetry, job.Filter{IDs: []string{in.ID}}, 1); err != nil || len(got) != 1 {
			t.Fatalf("retried %v, %v", got, err)
		}
		check()
	}
	repeat := func(list ...job.Settlement) {
		t.Helper()
		for _, s := range list {
			if err := settleOne(t, store, s); err != nil {
				t.Errorf("repeated: %v", err)
			}
			s.Kind = job.KindDead
			if err := settleOne(t, store, s); err == nil {
				t.Error("a token that completed its job has also failed it")
			}
		}
	}
	first := complete(func(*job.Settlement) {})
	repeat(first)
	if err := settleOne(t, store, job.Settlement{Ref: job.Ref{ID: in.ID, Fence: 7}, Kind: job.KindComplete}); !errors.Is(err, job.ErrNotRunning) {
		t.Errorf("another token: %v", err)
	}
	again()
	repeat(first)
	second := complete(func(s *job.Settlement) { s.Started, s.Output = 0, []byte("out") })
	repeat(first, second)
	again()
	third := complete(func(s *job.Settlement) { s.Error, s.Stack, s.Delay = "late", "stack", time.Second })
	repeat(first, second, third)
	again()
	repeat(first, second, third)
}

// TestSettlementsOfOneGroupKeepTheirTexts: a column of settlements may be empty, or empty after some position.
func TestSettlementsOfOneGroupKeepTheirTexts(t *testing.T) {
	db, _ := open(t)
	store := db.Jobs()
	list := inserts(4)
	enqueue(t, store, list...)
	claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 10}}, Lease: time.Minute})
	if err != nil || len(claimed) != 4 {
		t.Fatalf("claimed %d, %v", len(claimed), err)
	}
	settlements := []job.Settlement{
		{Kind: job.KindComplete},
		{Kind: job.KindDead, Error: "boom", Reason: "r"},
		{Kind: job.KindComplete, Output: []byte("out")},
		{Kind: job.KindComplete},
	}
	for i := range settlements {
		settlements[i].Ref = claimed[i].Ref()
	}
	if errs := store.Settle(t.Context(), settlements); errs != nil {
		t.Fatal(errs)
	}
	records := everyRecord(t, store)
	for i, s := range settlements {
		r := records[claimed[i].ID]
		if r.LastError != s.Error || r.Reason != s.Reason || string(r.Output) != string(s.Output) || (r.State == job.Completed) != (s.Kind == job.KindComplete) {
			t.Errorf("%d: %+v is stored as %+v", i, s, r)
		}
	}
}

// TestJ7ASettlementDoesNotOvertakeAnEarlierOneThatFailed: the server fails once, and the second settlement of the job would be written.
func TestJ7ASettlementDoesNotOvertakeAnEarlierOneThatFailed(t *testing.T) {
	db, schema := openNew(t, url)
	store := db.Jobs()
	enqueue(t, store, inserts(1)...)
	ref, in := claimOne(t, store).Ref(), pgx.Identifier{schema}.Sanitize()
	_, err := pools[url].Exec(t.Context(), fmt.Sprintf(`CREATE SEQUENCE %[1]s.failures;
CREATE FUNCTION %[1]s.fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('%[1]s.failures') = 1 THEN RAISE 'down'; END IF; RETURN OLD; END $$;
CREATE TRIGGER fail_once BEFORE DELETE ON %[1]s.running FOR EACH ROW EXECUTE FUNCTION %[1]s.fail_once()`, in))
	if err != nil {
		t.Fatal(err)
	}
	list := []job.Settlement{{Ref: ref, Kind: job.KindRetry, Delay: time.Hour, Error: "x", Reason: "error"}, {Ref: ref, Kind: job.KindComplete, Reason: "success"}}
	if errs := store.Settle(t.Context(), list); len(errs) != 2 || errs[0] == nil || errs[1] == nil || job.IsFinal(errs[1]) {
		t.Fatalf("errors %v, want that of the server twice", errs)
	}
	if errs := store.Settle(t.Context(), list); len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], job.ErrNotRunning) {
		t.Fatalf("repeated: %v", errs)
	}
}

// TestJ13RetentionForgetsQueuesThatHadOnlyFlows removes flows, one after the other, each of which was alone in its queue.
func TestJ13RetentionForgetsQueuesThatHadOnlyFlows(t *testing.T) {
	db, schema := open(t)
	store, ctx := db.Jobs(), t.Context()
	for _, queue := range []string{"a", "b", "c"} {
		var f job.Flow
		f.Add(job.FlowJob{Request: job.Request{Type: "t", Queue: queue}, Node: "n"})
		if _, err := job.NewClient(store).EnqueueFlow(ctx, &f); err != nil {
			t.Fatal(err)
		}
		claimed, err := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}}, Types: []string{"t"}, Lease: time.Minute})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if errs := store.Settle(ctx, []job.Settlement{{Ref: claimed[0].Ref(), Kind: job.KindComplete}}); errs != nil {
			t.Fatal(errs)
		}
		for range 3 { // each adds up what the one before has counted
			if _, err := store.Maintain(ctx, job.Maintenance{Limit: 10, Keep: map[job.State]time.Duration{job.Completed: 0}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	rows, _ := pools[url].Query(ctx, `SELECT queue FROM `+pgx.Identifier{schema, "total"}.Sanitize())
	if queues, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(queues) > 1 { // the last is forgotten with the next removal
		t.Errorf("queues %q, %v", queues, err)
	}
}
