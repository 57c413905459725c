package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// TestJ19LimitsChangeWhileATransactionIsOpen: a change of limits looks at all jobs again once the transactions have ended that
// began before it. One that stays open, in any database of the server, must not keep other changes from taking effect.
func TestJ19LimitsChangeWhileATransactionIsOpen(t *testing.T) {
	db, schema := open(t)
	store, ctx := db.Jobs(), t.Context()
	tx := begin(t)
	if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	queues := []string{"a", "b", "c"}
	for _, q := range queues {
		in := insert()
		in.Queue = q
		enqueue(t, store, in, insert())
	}
	for _, q := range queues {
		name := job.LimitName{Queue: q, Name: "x"}
		if err := store.SetLimit(ctx, job.LimitSetting{LimitName: name, Limit: &policy.JobLimit{Name: "x", Concurrency: 1}}); err != nil {
			t.Fatal(err)
		}
		if use, err := store.LimitUse(ctx, name, 1); err != nil || use.Held != 1 {
			t.Errorf("queue %s: %d places are taken (%v), its ready job has one", q, use.Held, err)
		}
	}
	steps := func() (n int) {
		t.Helper()
		for {
			done, err := store.Maintain(ctx, job.Maintenance{Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			if n++; !done.More || n == 100 {
				return n
			}
		}
	}
	if n := steps(); n != 1 {
		t.Errorf("maintenance looked at jobs again in %d steps while a second look was of no use", n)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		t.Helper()
		if err := tx.Conn().QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM %s.gate_work`, pgx.Identifier{schema}.Sanitize())).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for end := time.Now().Add(time.Minute); left() > 0; { // transactions of other tests
		if steps(); time.Now().After(end) {
			t.Fatal("the second look at the jobs was never done")
		}
	}
}

// TestJ19AProcessThatKnowsNoLimitsKeepsThem: a process stores jobs without a look at limits while it knows of none; those that another
// process has set since hold all the same, for single jobs and for many.
func TestJ19AProcessThatKnowsNoLimitsKeepsThem(t *testing.T) {
	db, schema := open(t)
	for _, n := range []int{1, 3, 500} {
		queue, other := fmt.Sprintf("q%d", n), openAt(t, url, schema).Jobs()
		list := inserts(n + 2)
		for i := range list {
			list[i].Queue = queue
		}
		enqueue(t, other, list[:1]...)
		name := job.LimitName{Queue: queue, Name: "x"}
		if err := db.Jobs().SetLimit(t.Context(), job.LimitSetting{LimitName: name, Limit: &policy.JobLimit{Name: "x", Concurrency: 1}}); err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]job.Insert{list[1 : n+1], list[n+1:]} {
			enqueue(t, other, part...)
		}
		use, err := db.Jobs().LimitUse(t.Context(), name, 1)
		if err != nil || use.Held != 1 || use.Waiting != n+1 {
			t.Errorf("%d jobs at once: %d places are taken and %d jobs wait (%v), want 1 and %d", n, use.Held, use.Waiting, err, n+1)
		}
	}
}

// TestJ19EventsAreTakenInParts: jobs of a large call come to the gate in parts, and no transaction takes more than it can hold.
func TestJ19EventsAreTakenInParts(t *testing.T) {
	db, schema := open(t)
	store, ctx := db.Jobs(), t.Context()
	name := job.LimitName{Queue: "q", Name: "x"}
	if err := store.SetLimit(ctx, job.LimitSetting{LimitName: name, Limit: &policy.JobLimit{Name: "x", Concurrency: 100}}); err != nil {
		t.Fatal(err)
	}
	const jobs = 45_000 // more than one look at the gate takes in all of its transactions
	tx := begin(t)
	if _, err := store.InsertTx(ctx, tx, inserts(jobs)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	var most, left int
	look := func() {
		t.Helper()
		statement := fmt.Sprintf(`SELECT coalesce(max(cardinality(arrived)), 0), coalesce(sum(cardinality(arrived)), 0) FROM %s.gate_event`, pgx.Identifier{schema}.Sanitize())
		if err := tx.Conn().QueryRow(ctx, statement).Scan(&most, &left); err != nil {
			t.Fatal(err)
		}
	}
	if look(); most > 1000 || left != jobs {
		t.Fatalf("events of up to %d jobs, %d jobs in all", most, left)
	}
	done, err := store.Maintain(ctx, job.Maintenance{Limit: 10})
	if look(); err != nil || !done.More || left == 0 || left == jobs {
		t.Errorf("one maintenance left %d of %d jobs at the gate (%v), more: %t", left, jobs, err, done.More)
	}
	for done.More {
		if done, err = store.Maintain(ctx, job.Maintenance{Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if use, err := store.LimitUse(ctx, name, 1); err != nil || use.Held != 100 || use.Waiting != jobs-100 {
		t.Errorf("%d places are taken and %d jobs wait (%v)", use.Held, use.Waiting, err)
	}
}

// TestJ19AJobOfALimitThatIsGoneAtTheCommitGoesOn stores a job in a transaction while there is a limit. It goes on although the last limit was switched off before the commit.
func TestJ19AJobOfALimitThatIsGoneAtTheCommitGoesOn(t *testing.T) {
	db, _ := open(t)
	store, ctx := db.Jobs(), t.Context()
	name := job.LimitName{Queue: "q", Name: "x"}
	set := func(s job.LimitSetting) {
		t.Helper()
		s.LimitName = name
		if err := store.SetLimit(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	set(job.LimitSetting{Limit: &policy.JobLimit{Name: "x", Concurrency: 1}})
	tx := begin(t)
	in := insert()
	in.Queue = "q"
	if _, err := store.InsertTx(ctx, tx, []job.Insert{in}); err != nil {
		t.Fatal(err)
	}
	set(job.LimitSetting{Off: true})
	time.Sleep(1100 * time.Millisecond) // the process asks whether there are limits once per second
	if _, err := store.Maintain(ctx, job.Maintenance{Limit: 10}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := store.Maintain(ctx, job.Maintenance{Limit: 10}); err != nil {
			t.Fatal(err)
		}
		list, err := store.Claim(ctx, job.Claim{Worker: "w", Lease: time.Minute, Queues: []job.Slots{{Queue: "q", Free: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	r, _, err := store.Get(ctx, in.ID)
	t.Fatalf("the job is %s for %q, %v", r.State, r.WaitsFor, err)
}

// TestJ6LostLeasesAreReportedWhenTheGateCannotBeTended: they are taken back in a transaction of their own, and no later maintenance finds
// them again.
func TestJ6LostLeasesAreReportedWhenTheGateCannotBeTended(t *testing.T) {
	db, schema := open(t)
	store, ctx := db.Jobs(), t.Context()
	name := job.LimitName{Queue: "limited", Name: "x"}
	if err := store.SetLimit(ctx, job.LimitSetting{LimitName: name, Limit: &policy.JobLimit{Name: "x", Concurrency: 1}}); err != nil {
		t.Fatal(err)
	}
	in := insert()
	enqueue(t, store, in)
	claimed, err := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: in.Queue, Free: 1}}, Lease: time.Millisecond})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d jobs, %v", len(claimed), err)
	}
	tx := begin(t)
	if _, err := tx.Exec(ctx, fmt.Sprintf(`LOCK TABLE %s.gate`, pgx.Identifier{schema}.Sanitize())); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	done, err := store.Maintain(limited, job.Maintenance{Limit: 10})
	if err == nil || len(done.Lost) != 1 || done.Lost[0].Ref != claimed[0].Ref() {
		t.Errorf("lost leases %+v, %v", done.Lost, err)
	}
}
