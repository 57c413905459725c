package sqlite

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// openLimited opens a new store with a limit of one job of "q" at a time.
func openLimited(t *testing.T) (*DB, job.LimitName) {
	t.Helper()
	db := openNew(t, Options{})
	name := job.LimitName{Queue: "q", Name: "one"}
	setOne(t, db.Jobs(), name)
	return db, name
}

func setOne(t *testing.T, jobs *Jobs, name job.LimitName) {
	t.Helper()
	if err := jobs.SetLimit(t.Context(), job.LimitSetting{LimitName: name, Limit: &policy.JobLimit{Name: name.Name, Concurrency: 1}}); err != nil {
		t.Fatal(err)
	}
}

func enqueueOne(t *testing.T, jobs *Jobs, id string) {
	t.Helper()
	if _, err := jobs.Enqueue(t.Context(), []job.Insert{{ID: id, Type: "t", Queue: "q", Payload: []byte(`{}`)}}); err != nil {
		t.Error(err)
	}
}

func claimOne(t *testing.T, jobs *Jobs) *job.Record {
	t.Helper()
	list, err := jobs.Claim(t.Context(), job.Claim{Worker: "w", Lease: time.Minute, Queues: []job.Slots{{Queue: "q", Free: 1}}})
	if err != nil || len(list) != 1 {
		t.Fatalf("claimed %d jobs, %v; want 1", len(list), err)
	}
	return list[0]
}

func noPlace(t *testing.T, jobs *Jobs, name job.LimitName) {
	t.Helper()
	if use, err := jobs.LimitUse(t.Context(), name, 10); err != nil || use.Held != 0 || use.Waiting != 0 {
		t.Errorf("%+v, %v; want no place", use, err)
	}
}

// together runs operations in one transaction of the writer: they wait behind another one.
func together(t *testing.T, db *DB, operations ...func()) {
	t.Helper()
	begun, release := make(chan struct{}), make(chan struct{})
	done := make(chan struct{}, len(operations)+1)
	go func() {
		_ = db.writer.write(context.Background(), "block", &operation{run: func(querier) error { close(begun); <-release; return nil }})
		done <- struct{}{}
	}()
	<-begun
	for _, f := range operations {
		go func() { f(); done <- struct{}{} }()
		time.Sleep(20 * time.Millisecond) // it is queued
	}
	close(release)
	for range len(operations) + 1 {
		<-done
	}
}

const (
	someID    = "01990000-0000-7000-8000-000000000001"
	anotherID = "01990000-0000-7000-8000-000000000002"
)

func TestJ19AJobThatIsCancelledInTheTransactionThatStoresItHoldsNoPlace(t *testing.T) {
	for _, action := range []job.Action{job.ActionCancel, job.ActionDelete} {
		t.Run(string(action), func(t *testing.T) {
			db, name := openLimited(t)
			jobs := db.Jobs()
			together(t, db, func() { enqueueOne(t, jobs, someID) }, func() {
				if changed, err := jobs.Change(t.Context(), action, job.Filter{Queue: "q"}, 10); err != nil || len(changed) != 1 {
					t.Error(changed, err)
				}
			})
			noPlace(t, jobs, name)
			enqueueOne(t, jobs, anotherID)
			claimOne(t, jobs)
		})
	}
}

func TestJ19ARedriveThatIsUndoneInTheTransactionOfItsReleaseHoldsNoPlace(t *testing.T) {
	db, name := openLimited(t)
	jobs, ctx := db.Jobs(), t.Context()
	enqueueOne(t, jobs, someID)
	if errs := jobs.Settle(ctx, []job.Settlement{{Ref: claimOne(t, jobs).Ref(), Kind: job.KindDead, Error: "e", Reason: policy.ReasonError}}); errs != nil {
		t.Fatal(errs)
	}
	r, err := jobs.CreateRedrive(ctx, job.NewRedrive{ID: anotherID, Filter: job.Filter{Queue: "q"}})
	if err != nil {
		t.Fatal(err)
	}
	step := func() {
		if _, _, err := jobs.StepRedrive(ctx, r.ID, 0); err != nil {
			t.Log(err)
		}
	}
	together(t, db, step, func() {
		if _, err := jobs.UpdateRedrive(ctx, r.ID, job.RedriveChange{Action: job.RedriveUndo}); err != nil {
			t.Error(err)
		}
	}, step, step)
	if got, _, err := jobs.Get(ctx, someID); err != nil || got.State != job.Dead {
		t.Fatalf("the job is %s, %v; want it dead again", got.State, err)
	}
	noPlace(t, jobs, name)
}

// TestJ19AChangeOfLimitsDoesNotStepThroughRemovedJobs sets a limit beside one job, after many that are gone.
func TestJ19AChangeOfLimitsDoesNotStepThroughRemovedJobs(t *testing.T) {
	db, _ := openLimited(t)
	enqueueOne(t, db.Jobs(), someID)
	pool, err := sql.Open("sqlite", db.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(`UPDATE tenet_job SET seq = 1000000000000`); err != nil {
		t.Fatal(err)
	}
	setOne(t, db.Jobs(), job.LimitName{Queue: "q", Name: "another"}) // 10,000 at a time would take a day
	claimOne(t, db.Jobs())
}
