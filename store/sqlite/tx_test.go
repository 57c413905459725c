package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/store/sqlite"
)

func count(t *testing.T, db *sqlite.DB) int {
	t.Helper()
	list, err := db.Jobs().List(t.Context(), job.Filter{}, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestJ9EnqueueTxFollowsTheTransaction(t *testing.T) {
	db := open(t)
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in := number(1)
		in.UniqueKey = "k"
		receipts, err := db.Jobs().EnqueueTx(t.Context(), tx, []job.Insert{in, number(2)})
		if err != nil || len(receipts) != 2 || receipts[0].Existed || receipts[1].Durability != job.InTransaction {
			t.Fatalf("%+v, %v", receipts, err)
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%d jobs before the end of the transaction", n)
		}
		want := 0
		if commit {
			want, err = 2, tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, db); n != want {
			t.Errorf("commit %v: %d jobs, want %d", commit, n, want)
		}
	}
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := db.Jobs().EnqueueTx(t.Context(), tx, []job.Insert{number(1)}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("an ID that exists: %v, want %v", err, job.ErrConflict)
	}
}

func TestJ11WorkOfATransactionIsNotified(t *testing.T) {
	db := open(t)
	signals, err := db.Jobs().Notify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Jobs().EnqueueTx(t.Context(), tx, []job.Insert{number(1)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for found := false; !found; { // signals may be false
		<-signals
		list, err := db.Jobs().Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		found = len(list) == 1
	}
}

func TestJ9CompleteTxFollowsTheTransaction(t *testing.T) {
	db := open(t)
	fill(t, db.Jobs(), 1)
	list, err := db.Jobs().Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Minute})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	lease := list[0].Ref()
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Jobs().CompleteTx(t.Context(), tx, job.Ref{ID: lease.ID, Fence: 7}); !errors.Is(err, job.ErrFenced) {
			t.Errorf("another token: %v, want %v", err, job.ErrFenced)
		}
		if err := db.Jobs().CompleteTx(t.Context(), tx, lease); err != nil {
			t.Fatal(err)
		}
		want := job.Running
		if commit {
			want, err = job.Completed, tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
		r, history, err := db.Jobs().Get(t.Context(), lease.ID)
		if err != nil || r.State != want || (len(history) == 1) != commit {
			t.Errorf("commit %v: %s with %+v, %v", commit, r.State, history, err)
		}
	}
	// The worker completes what its handler has completed already.
	if errs := db.Jobs().Settle(t.Context(), []job.Settlement{{Ref: lease, Kind: job.KindComplete}}); errs != nil {
		t.Errorf("completing again: %v", errs)
	}
}
