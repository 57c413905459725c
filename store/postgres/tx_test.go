package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // a driver for database/sql

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/store/postgres"
)

// transaction is one of the two kinds that the store joins.
type transaction struct {
	enqueue  func([]job.Insert) ([]job.Receipt, error)
	complete func(job.Ref) error
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
				enqueue:  func(list []job.Insert) ([]job.Receipt, error) { return store.EnqueueTx(ctx, tx, list) },
				complete: func(lease job.Ref) error { return store.CompleteTx(ctx, tx, lease) },
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
				enqueue:  func(list []job.Insert) ([]job.Receipt, error) { return store.EnqueueSQL(ctx, tx, list) },
				complete: func(lease job.Ref) error { return store.CompleteSQL(ctx, tx, lease) },
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

func TestJ9CompletionIsPartOfTheTransaction(t *testing.T) {
	inEachKind(t, func(t *testing.T, store *postgres.Jobs, begin func() transaction) {
		ctx := context.Background()
		if _, err := store.Enqueue(ctx, inserts(1)); err != nil {
			t.Fatal(err)
		}
		list, err := store.Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Minute})
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		lease := list[0].Ref()
		state := func() job.State {
			r, _, err := store.Get(ctx, lease.ID)
			if err != nil {
				t.Fatal(err)
			}
			return r.State
		}

		tx := begin()
		if err := tx.complete(lease); err != nil {
			t.Fatal(err)
		}
		if err := tx.rollback(); err != nil || state() != job.Running {
			t.Fatalf("after the rollback: %s, %v", state(), err)
		}
		tx = begin()
		for _, c := range []struct {
			lease job.Ref
			want  error
		}{
			{job.Ref{ID: lease.ID, Fence: lease.Fence + 1}, job.ErrFenced}, {job.Ref{ID: insert().ID, Fence: 1}, job.ErrNotFound}, {lease, nil}, {lease, nil},
			{job.Ref{ID: lease.ID, Fence: lease.Fence + 1}, job.ErrNotRunning},
		} {
			if err := tx.complete(c.lease); !errors.Is(err, c.want) {
				t.Errorf("complete %+v: %v, want %v", c.lease, err, c.want)
			}
		}
		if err := tx.commit(); err != nil || state() != job.Completed {
			t.Fatalf("after the commit: %s, %v", state(), err)
		}
		// The worker completes the job once more when the handler has returned.
		errs := store.Settle(ctx, []job.Settlement{{Ref: lease, Kind: job.KindComplete}})
		if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			t.Fatal(errs)
		}
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
