package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
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
		receipts, err := db.Jobs().InsertTx(t.Context(), tx, []job.Insert{in, number(2)})
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
	if _, err := db.Jobs().InsertTx(t.Context(), tx, []job.Insert{number(1)}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("an ID that exists: %v, want %v", err, job.ErrConflict)
	}
}

func TestJ9OneCallEnqueuesADefinedJobInATransaction(t *testing.T) {
	db := open(t)
	pay := job.Define[int]("invoice:pay", job.WithQueue("billing"))
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := db.Jobs().EnqueueTx(t.Context(), tx, job.Request{}); err == nil {
		t.Error("a request without a type was accepted")
	}
	receipts, err := db.Jobs().EnqueueTx(t.Context(), tx, pay.Request(7), pay.Request(8, job.WithQueue("late")))
	if err != nil || len(receipts) != 2 || receipts[0].Durability != job.InTransaction {
		t.Fatalf("%+v, %v", receipts, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"invoice:pay billing 7", "invoice:pay late 8"} {
		r, _, err := db.Jobs().Get(t.Context(), receipts[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s %s", r.Type, r.Queue, r.Payload); got != want {
			t.Errorf("stored %q, want %q", got, want)
		}
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
	if _, err := db.Jobs().InsertTx(t.Context(), tx, []job.Insert{number(1)}); err != nil {
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

// errWithdrawn is a handler's failure.
var errWithdrawn = errors.New("withdrawn")

// handled runs a job in a worker until its handler calls stop, and returns what became of it and the worker's warnings.
func handled(t *testing.T, store *sqlite.Jobs, handler func(j job.Job[int], stop func()) error) (r *job.Record, history []job.Attempt, warnings string) {
	t.Helper()
	receipt, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: "t", Payload: 7})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	w := job.NewWorker(store, job.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))),
		job.WithRetryPolicy(job.NewExponentialBackoff(policy.Retry{MaxAttempts: 3, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond, BackoffMultiplier: 1, Jitter: policy.JitterNone})))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	job.Handle(w, "t", func(_ context.Context, j job.Job[int]) error { return handler(j, stop) })
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if r, history, err = store.Get(t.Context(), receipt.ID); err != nil {
		t.Fatal(err)
	}
	return r, history, log.String()
}

func TestJ26AHandlerCompletesItsJobInItsOwnTransaction(t *testing.T) {
	for _, c := range []struct {
		name       string
		rolledBack int   // attempts that roll back and fail before one commits
		after      error // of the handler, after the commit
		attempts   []job.AttemptOutcome
		warned     bool
	}{
		{"committed", 0, nil, []job.AttemptOutcome{job.AttemptCompleted}, false},
		{"rolled back", 2, nil, []job.AttemptOutcome{job.AttemptFailed, job.AttemptFailed, job.AttemptCompleted}, false},
		{"failed after the commit", 0, errWithdrawn, []job.AttemptOutcome{job.AttemptCompleted}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := open(t)
			change(t, db, `CREATE TABLE effect (job TEXT, attempt INTEGER)`)
			r, history, warnings := handled(t, db.Jobs(), func(j job.Job[int], stop func()) error {
				tx, err := db.BeginTx(t.Context())
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := tx.ExecContext(t.Context(), `INSERT INTO effect VALUES (?, ?)`, j.ID, j.Attempt); err != nil {
					return err
				}
				if err := db.Jobs().CompleteTx(t.Context(), tx, j.Lease()); err != nil {
					t.Error(err)
				}
				if j.Attempt <= c.rolledBack {
					return errWithdrawn
				}
				stop()
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				return c.after
			})
			var outcomes []job.AttemptOutcome
			for _, a := range history {
				outcomes = append(outcomes, a.Outcome)
			}
			if r.State != job.Completed || r.Failures != c.rolledBack || !slices.Equal(outcomes, c.attempts) {
				t.Errorf("%s after %d failures, %v", r.State, r.Failures, outcomes)
			}
			if got := strings.Contains(warnings, "a late result was refused"); got != c.warned {
				t.Errorf("the worker warns: %q", warnings)
			}
			if n := change(t, db, `DELETE FROM effect`); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}

// change runs a statement in a transaction of its own and returns the number of rows.
func change(t *testing.T, db *sqlite.DB, statement string) int64 {
	t.Helper()
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	result, err := tx.ExecContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestJ26ALeaseThatIsLostCompletesNothing(t *testing.T) {
	db := open(t)
	var lease job.Lease
	r, _, _ := handled(t, db.Jobs(), func(j job.Job[int], stop func()) error {
		lease = j.Lease()
		stop()
		return job.Snooze(0) // gives the lease back
	})
	complete := func(lease job.Lease, want error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if err := db.Jobs().CompleteTx(t.Context(), tx, lease); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	complete(lease, job.ErrNotRunning)
	list, err := db.Jobs().Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: r.Queue, Free: 1}}, Lease: time.Minute})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	complete(lease, job.ErrFenced)
	complete(job.Lease{}, job.ErrNotFound)
	complete(job.Job[int]{ID: r.ID}.Lease(), job.ErrNotFound)
}
