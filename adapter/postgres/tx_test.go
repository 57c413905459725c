package postgres_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // a driver for database/sql

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// transaction is one of the two kinds that the store joins.
type transaction struct {
	enqueue  func([]job.Insert) ([]job.Receipt, error)
	request  func(job.Request) ([]job.Receipt, error)
	complete func(job.Lease) error
	exec     func(statement string) error
	commit   func() error
	rollback func() error
}

// inEachKind runs a test in both kinds of transaction.
func inEachKind(t *testing.T, f func(t *testing.T, store *postgres.Jobs, begin func() transaction)) {
	ctx := context.Background()
	t.Run("pgx", func(t *testing.T) {
		db, _ := open(t)
		store := db.Jobs()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		f(t, store, func() transaction {
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return transaction{
				enqueue:  func(list []job.Insert) ([]job.Receipt, error) { return store.InsertTx(ctx, tx, list) },
				request:  func(r job.Request) ([]job.Receipt, error) { return store.EnqueueTx(ctx, tx, r) },
				complete: func(lease job.Lease) error { return store.CompleteTx(ctx, tx, lease) },
				exec: func(statement string) error {
					_, err := tx.Exec(ctx, statement)
					return err
				},
				commit:   func() error { return tx.Commit(ctx) },
				rollback: func() error { return tx.Rollback(ctx) },
			}
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		db, _ := open(t)
		store := db.Jobs()
		pool, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		f(t, store, func() transaction {
			tx, err := pool.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			return transaction{
				enqueue:  func(list []job.Insert) ([]job.Receipt, error) { return store.InsertSQL(ctx, tx, list) },
				request:  func(r job.Request) ([]job.Receipt, error) { return store.SQL().EnqueueTx(ctx, tx, r) },
				complete: func(lease job.Lease) error { return store.SQL().CompleteTx(ctx, tx, lease) },
				exec: func(statement string) error {
					_, err := tx.ExecContext(ctx, statement)
					return err
				},
				commit:   tx.Commit,
				rollback: tx.Rollback,
			}
		})
	})
}

func TestJ9JobsOfATransactionAreThereWhenItCommits(t *testing.T) {
	inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
		ctx := context.Background()
		odd := insert()
		odd.Type, odd.Queue, odd.Payload, odd.UniqueKey = `"{,}\`, `q "\' ü`, []byte("\x00\\\"{},NULL\xff"), "k\x00\xff\\"
		odd.Meta = map[string]string{`"\`: "a\x00b", "NULL": ""}
		odd.Timeout, odd.MaxAttempts, odd.Priority = 3*time.Second+1, 7, 9
		odd.RunAt = job.Stamp(time.Now().Add(time.Hour))
		twice := odd
		twice.ID = insert().ID
		plain := insert()
		plain.Payload = nil
		tx := begin()
		receipts, err := tx.enqueue([]job.Insert{odd, twice, plain})
		want := []job.Receipt{
			{ID: odd.ID, Durability: job.InTransaction}, {ID: odd.ID, Existed: true}, {ID: plain.ID, Durability: job.InTransaction},
		}
		if diff := cmp.Diff(want, receipts); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
		more := inserts(3)
		if _, err := tx.enqueue(more); err != nil {
			t.Fatal(err)
		}
		if list, err := store.List(ctx, job.Filter{}, "", 10); err != nil || len(list) != 0 {
			t.Fatalf("before the commit: %d jobs, %v", len(list), err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		list, err := store.List(ctx, job.Filter{}, "", 10)
		if err != nil || len(list) != 5 {
			t.Fatalf("after the commit: %d jobs, %v", len(list), err)
		}
		got, _, err := store.Get(ctx, odd.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(job.New(odd, got.CreatedAt), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func TestJ9OneCallEnqueuesADefinedJobInATransaction(t *testing.T) {
	pay := job.Define[int]("invoice:pay", job.WithQueue("billing"), job.WithAttempts(3))
	inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
		tx := begin()
		if _, err := tx.request(job.Request{}); err == nil {
			t.Error("a request without a type was accepted")
		}
		receipts, err := tx.request(pay.Request(7, job.WithPriority(2)))
		if err != nil || len(receipts) != 1 || receipts[0].Durability != job.InTransaction {
			t.Fatalf("%+v, %v", receipts, err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		got, _, err := store.Get(t.Context(), receipts[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.Type != "invoice:pay" || got.Queue != "billing" || got.MaxAttempts != 3 || got.Priority != 2 || string(got.Payload) != "7" {
			t.Errorf("stored %+v", got)
		}
	})
}

func TestJ9JobsOfATransactionAreGoneWhenItRollsBack(t *testing.T) {
	inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
		keyed := insert()
		keyed.UniqueKey = "k"
		tx := begin()
		if _, err := tx.enqueue([]job.Insert{keyed, insert()}); err != nil {
			t.Fatal(err)
		}
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		if list, err := store.List(context.Background(), job.Filter{}, "", 10); err != nil || len(list) != 0 {
			t.Fatalf("%d jobs, %v", len(list), err)
		}
		keyed.ID = insert().ID
		if receipts, err := store.Enqueue(context.Background(), []job.Insert{keyed}); err != nil || receipts[0].Existed {
			t.Fatalf("the key is still taken: %+v, %v", receipts, err)
		}
	})
}

func TestJ9AnIDThatExistsIsAConflictInATransaction(t *testing.T) {
	inEachKind(t, func(t *testing.T, _ *postgres.Jobs, begin func() transaction) {
		in := insert()
		tx := begin()
		defer tx.rollback()
		if _, err := tx.enqueue([]job.Insert{in, in}); !errors.Is(err, job.ErrConflict) {
			t.Fatalf("%v, want %v", err, job.ErrConflict)
		}
	})
}

// errWithdrawn is a handler's failure.
var errWithdrawn = errors.New("withdrawn")

// handled runs a job in a worker until its handler calls stop, and returns what became of it and the worker's warnings.
func handled(t *testing.T, store *postgres.Jobs, handler func(j job.Job[int], stop func()) error) (r *job.Record, history []job.Attempt, warnings string) {
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
			inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
				effect := "effect_" + rand.Text()
				tx := begin()
				if err := errors.Join(tx.exec(`CREATE TABLE `+effect+` (attempt integer UNIQUE)`), tx.commit()); err != nil {
					t.Fatal(err)
				}
				r, history, warnings := handled(t, store, func(j job.Job[int], stop func()) error {
					tx := begin()
					// Always the same row: one that a rolled-back attempt left behind would be in the way.
					if err := errors.Join(tx.exec(`INSERT INTO `+effect+` VALUES (1)`), tx.complete(j.Lease())); err != nil {
						t.Error(err)
					}
					if j.Attempt <= c.rolledBack {
						return errors.Join(errWithdrawn, tx.rollback())
					}
					stop()
					if err := tx.commit(); err != nil {
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
				tx = begin()
				defer tx.rollback()
				if err := tx.exec(`INSERT INTO ` + effect + ` VALUES (1)`); err == nil {
					t.Error("what the handler wrote is not there")
				}
			})
		})
	}
}

func TestJ26ALeaseThatIsLostCompletesNothing(t *testing.T) {
	inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
		var lease job.Lease
		r, _, _ := handled(t, store, func(j job.Job[int], stop func()) error {
			lease = j.Lease()
			stop()
			return job.Snooze(0) // gives the lease back
		})
		complete := func(lease job.Lease, want error) {
			t.Helper()
			tx := begin()
			defer tx.rollback()
			if err := tx.complete(lease); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		complete(lease, job.ErrNotRunning)
		list, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: r.Queue, Free: 1}}, Lease: time.Minute})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		complete(lease, job.ErrFenced)
		complete(job.Lease{}, job.ErrNotFound)
		complete(job.Job[int]{ID: r.ID}.Lease(), job.ErrNotFound)
	})
}

func TestJ11JobsOfATransactionAreNotifiedWhenItCommits(t *testing.T) {
	inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		signals, err := store.Notify(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tx := begin()
		if _, err := tx.enqueue(inserts(1)); err != nil {
			t.Fatal(err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if _, open := <-signals; !open {
			t.Fatal("the channel was closed")
		}
	})
}
