package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

func TestTransactions(t *testing.T) {
	storetest.Transactions(t, func(t *testing.T) storetest.Database {
		db := open(t)
		ctx := t.Context()
		tx := begin(t, db)
		_, err := tx.ExecContext(ctx, `CREATE TABLE effect (n INTEGER)`)
		if err := errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
		records := db.Idempotency()
		return storetest.Database{
			Jobs: db.Jobs(), Records: records,
			Begin: func() (storetest.Transaction, error) {
				tx, err := db.BeginTx(ctx)
				return storetest.Transaction{
					EnqueueTx:     func(list ...job.Request) ([]job.Receipt, error) { return db.Jobs().EnqueueTx(ctx, tx, list...) },
					EnqueueFlowTx: func(f *job.Flow) (job.FlowReceipt, error) { return db.Jobs().EnqueueFlowTx(ctx, tx, f) },
					CompleteTx:    func(lease job.Lease) error { return db.Jobs().CompleteTx(ctx, tx, lease) },
					BeginTx:       func(r idempotency.BeginRequest) (idempotency.Begun, error) { return records.BeginTx(ctx, tx, r) },
					SettleTx:      func(c idempotency.Claim, s idempotency.Settlement) error { return records.SettleTx(ctx, tx, c, s) },
					Effect: func() error {
						_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (1)`)
						return err
					},
					Commit: tx.Commit, Rollback: tx.Rollback,
				}, err
			},
			Effects: func() (n int, _ error) {
				tx, err := db.BeginTx(ctx)
				if err != nil {
					return 0, err
				}
				err = tx.QueryRowContext(ctx, `SELECT count(*) FROM effect`).Scan(&n)
				return n, errors.Join(err, tx.Rollback())
			},
		}
	})
}

func beginRequest(owner string) idempotency.BeginRequest {
	return idempotency.BeginRequest{ID: idempotency.ID{Tenant: "a", Operation: "o", Key: "k"}, Owner: owner, Lease: time.Minute}
}

var completion = idempotency.Settlement{State: idempotency.Completed, TTL: time.Hour}

func TestJ9AnExistingIDIsAConflictInATransaction(t *testing.T) {
	db := open(t)
	for name, stored := range map[string]bool{"stored before": true, "twice in one call": false} {
		t.Run(name, func(t *testing.T) {
			in := number(1)
			list := []job.Insert{in, in}
			if stored {
				if _, err := db.Jobs().Enqueue(t.Context(), list[:1]); err != nil {
					t.Fatal(err)
				}
				list = list[:1]
			}
			tx := begin(t, db)
			if _, err := db.Jobs().InsertTx(t.Context(), tx, list); !errors.Is(err, job.ErrConflict) {
				t.Errorf("%v, want %v", err, job.ErrConflict)
			}
		})
	}
}

// TestJ9ATransactionStoresAnyBytes: job.Inserts refuses such text, but a store keeps what it is given.
func TestJ9ATransactionStoresAnyBytes(t *testing.T) {
	db := open(t)
	in := number(1)
	in.UniqueKey, in.Meta = "k\x00\xff\\", map[string]string{`"\`: "a\x00b", "NULL": ""}
	tx := begin(t, db)
	_, err := db.Jobs().InsertTx(t.Context(), tx, []job.Insert{in})
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	got, _, err := db.Jobs().Get(t.Context(), in.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job.New(in, got.CreatedAt), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestI5AFencedSettlementDoesNotFailOtherWrites: the operations of a group share a transaction, but each has its own outcome.
func TestI5AFencedSettlementDoesNotFailOtherWrites(t *testing.T) {
	db := open(t)
	store := db.Idempotency()
	begun, err := store.Begin(t.Context(), beginRequest("o"))
	if err != nil {
		t.Fatal(err)
	}
	tx := begin(t, db) // the following operations queue behind it
	answers := make(chan error, 3)
	stale := begun.Record.Claim()
	stale.Owner = "x"
	go func() { answers <- store.Settle(t.Context(), stale, completion) }()
	go func() { answers <- store.Settle(t.Context(), begun.Record.Claim(), completion) }()
	go func() {
		_, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)})
		answers <- err
	}()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	fenced := 0
	for range cap(answers) {
		err := <-answers
		if errors.Is(err, idempotency.ErrFenced) {
			fenced++
		} else if err != nil {
			t.Error(err)
		}
	}
	list, err := db.Jobs().List(t.Context(), job.Filter{}, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := store.Get(t.Context(), begun.Record.ID); err != nil || got.State != idempotency.Completed || fenced != 1 || len(list) != 1 {
		t.Fatalf("%d fenced, %d jobs, %+v, %v", fenced, len(list), got, err)
	}
}

func TestI6AMissingTableOrAClosedFileIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := openFile(t, path)
	for { // to an empty file
		steps, err := db.Migrate(t.Context(), "down", false)
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) == 0 {
			break
		}
	}
	store, events := db.Idempotency(), db.Audit()
	check := func(want error) {
		t.Helper()
		_, begin := store.Begin(t.Context(), beginRequest("o"))
		_, get := store.Get(t.Context(), beginRequest("o").ID)
		_, heads := events.Heads(t.Context())
		for name, err := range map[string]error{
			"begin": begin, "get": get, "settle": store.Settle(t.Context(), idempotency.Claim{}, completion), "clear": store.Clear(t.Context(), idempotency.Claim{}),
			"heads": heads, "read": events.Read(t.Context(), "", nil),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
	check(sqlite.ErrNotMigrated)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check(job.ErrClosed)
}
