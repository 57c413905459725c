package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // a driver for database/sql

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

const (
	createEffects = `CREATE TEMP TABLE effect (n int)`
	insertEffect  = `INSERT INTO effect VALUES (1)`
	countEffects  = `SELECT count(*) FROM effect`
)

func TestTransactionsOfPgx(t *testing.T) {
	storetest.Transactions(t, func(t *testing.T) storetest.Database {
		db, _ := open(t)
		jobs, records := db.Jobs(), db.Idempotency()
		ctx := context.Background()
		conn := connect(t)
		if _, err := conn.Exec(ctx, createEffects); err != nil {
			t.Fatal(err)
		}
		return storetest.Database{
			Jobs: jobs, Records: records,
			Begin: func() (storetest.Transaction, error) {
				tx, err := conn.Begin(ctx)
				return storetest.Transaction{
					EnqueueTx:     func(list ...job.Request) ([]job.Receipt, error) { return jobs.EnqueueTx(ctx, tx, list...) },
					EnqueueFlowTx: func(f *job.Flow) (job.FlowReceipt, error) { return jobs.EnqueueFlowTx(ctx, tx, f) },
					CompleteTx:    func(lease job.Lease) error { return jobs.CompleteTx(ctx, tx, lease) },
					BeginTx:       func(r idempotency.BeginRequest) (idempotency.Begun, error) { return records.BeginTx(ctx, tx, r) },
					SettleTx:      func(c idempotency.Claim, s idempotency.Settlement) error { return records.SettleTx(ctx, tx, c, s) },
					Effect: func() error {
						_, err := tx.Exec(ctx, insertEffect)
						return err
					},
					Commit:   func() error { return tx.Commit(ctx) },
					Rollback: func() error { return tx.Rollback(ctx) },
				}, err
			},
			Effects: func() (n int, err error) {
				err = conn.QueryRow(ctx, countEffects).Scan(&n)
				return n, err
			},
		}
	})
}

func TestTransactionsOfDatabaseSQL(t *testing.T) {
	storetest.Transactions(t, func(t *testing.T) storetest.Database {
		db, _ := open(t)
		jobs, records := db.Jobs().SQL(), db.Idempotency()
		ctx := context.Background()
		pool, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pool.Close() })
		pool.SetMaxOpenConns(1) // the connection with the temporary table
		if _, err := pool.ExecContext(ctx, createEffects); err != nil {
			t.Fatal(err)
		}
		return storetest.Database{
			Jobs: db.Jobs(), Records: records,
			Begin: func() (storetest.Transaction, error) {
				tx, err := pool.BeginTx(ctx, nil)
				return storetest.Transaction{
					EnqueueTx:     func(list ...job.Request) ([]job.Receipt, error) { return jobs.EnqueueTx(ctx, tx, list...) },
					EnqueueFlowTx: func(f *job.Flow) (job.FlowReceipt, error) { return jobs.EnqueueFlowTx(ctx, tx, f) },
					CompleteTx:    func(lease job.Lease) error { return jobs.CompleteTx(ctx, tx, lease) },
					BeginTx:       func(r idempotency.BeginRequest) (idempotency.Begun, error) { return records.SQL().BeginTx(ctx, tx, r) },
					SettleTx: func(c idempotency.Claim, s idempotency.Settlement) error {
						return records.SQL().SettleTx(ctx, tx, c, s)
					},
					Effect: func() error {
						_, err := tx.ExecContext(ctx, insertEffect)
						return err
					},
					Commit: tx.Commit, Rollback: tx.Rollback,
				}, err
			},
			Effects: func() (n int, err error) {
				err = pool.QueryRowContext(ctx, countEffects).Scan(&n)
				return n, err
			},
		}
	})
}

// insertInEachKind runs a test in a transaction of pgx and in one of database/sql.
func insertInEachKind(t *testing.T, run func(t *testing.T, store *postgres.Jobs, insert func(...job.Insert) ([]job.Receipt, error), commit func() error)) {
	ctx := context.Background()
	t.Run("pgx", func(t *testing.T) {
		db, _ := open(t)
		tx := begin(t)
		run(t, db.Jobs(), func(list ...job.Insert) ([]job.Receipt, error) {
			return db.Jobs().InsertTx(ctx, tx, list)
		}, func() error { return tx.Commit(ctx) })
	})
	t.Run("database/sql", func(t *testing.T) {
		db, _ := open(t)
		pool, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		run(t, db.Jobs(), func(list ...job.Insert) ([]job.Receipt, error) {
			return db.Jobs().SQL().InsertTx(ctx, tx, list)
		}, tx.Commit)
	})
}

// TestJ9LargeJobsWithKeysAreStoredTogether stores more than fits into a statement. The keys of the first and of the second job are
// repeated.
func TestJ9LargeJobsWithKeysAreStoredTogether(t *testing.T) {
	list := inserts(4)
	for i, key := range []string{"a", "b", "a", "b"} {
		list[i].UniqueKey = key
	}
	list[0].Payload = make([]byte, 16<<20)
	insertInEachKind(t, func(t *testing.T, store *postgres.Jobs, insertTx func(...job.Insert) ([]job.Receipt, error), commit func() error) {
		receipts, err := insertTx(list...)
		if err := errors.Join(err, commit()); err != nil {
			t.Fatal(err)
		}
		for i, r := range receipts {
			if r.ID != list[i%2].ID || r.Existed != (i > 1) {
				t.Errorf("job %d: %+v, want ID %s", i, r, list[i%2].ID)
			}
		}
		for i, in := range list {
			if _, _, err := store.Get(t.Context(), in.ID); (err == nil) != (i < 2) {
				t.Errorf("job %d: %v", i, err)
			}
		}
	})
}

// TestJ9TransactionsWithTheSameKeysInOppositeOrderDoNotDeadlock: the second waits for the end of the first.
func TestJ9TransactionsWithTheSameKeysInOppositeOrderDoNotDeadlock(t *testing.T) {
	db, _ := open(t)
	payload := make([]byte, 2<<20) // more than a statement takes
	errs := make(chan error)
	for _, order := range []string{"abcdefghijkl", "lkjihgfedcba"} {
		list := inserts(len(order))
		for i := range list {
			list[i].UniqueKey, list[i].Payload = order[i:i+1], payload
		}
		go func() {
			errs <- pgx.BeginFunc(t.Context(), pools[url], func(tx pgx.Tx) error {
				_, err := db.Jobs().InsertTx(t.Context(), tx, list)
				return err
			})
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Error(err)
	}
}

// TestJ9AllTransactionsTakeAndReleaseKeysInOneOrder, also in a database that sorts texts otherwise than bytes.
func TestJ9AllTransactionsTakeAndReleaseKeysInOneOrder(t *testing.T) {
	ctx := t.Context()
	const database = "sorts_a_before_B"
	if _, err := pools[url].Exec(ctx, `CREATE DATABASE "`+database+`" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'`); err != nil {
		t.Skip("this server cannot sort otherwise: ", err)
	}
	t.Cleanup(func() {
		if _, err := pools[url].Exec(context.Background(), `DROP DATABASE "`+database+`" WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	at := strings.Replace(url, "/postgres?", "/"+database+"?", 1)
	db, _ := openNew(t, at)
	pool, err := pgxpool.New(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store := func(tx pgx.Tx, size int, queues ...string) error {
		list := inserts(len(queues))
		for i, queue := range queues {
			list[i].Queue, list[i].UniqueKey, list[i].Payload = queue, "k", make([]byte, size)
		}
		_, err := db.Jobs().InsertTx(ctx, tx, list)
		return err
	}
	errs := make(chan error, 2)
	begin := func(size int, queues ...string) {
		go func() {
			errs <- pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `SET LOCAL deadlock_timeout = '10ms'`) // it fails, not what it waits for
				return errors.Join(err, store(tx, size, queues...))
			})
		}()
	}
	holdC := func() pgx.Tx {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }) // if a wait fails, the others go on
		if err := store(tx, 0, "C"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	first := holdC()
	begin(17<<20, "a", "B", "C") // a statement for each: it has B and waits for C
	awaitLocks(t, pool, 1)
	begin(0, "a", "B")
	awaitLocks(t, pool, 2)
	if err := errors.Join(first.Rollback(ctx), <-errs, <-errs); err != nil {
		t.Error(err)
	}

	claim := job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "a", Free: 1}, {Queue: "B", Free: 1}}, Lease: time.Hour}
	claimed, err := db.Jobs().Claim(ctx, claim)
	if err != nil || len(claimed) != 2 {
		t.Fatal(len(claimed), err)
	}
	first = holdC()
	begin(0, "B", "C", "a") // it has B and waits for C
	awaitLocks(t, pool, 1)
	go func() {
		errs <- errors.Join(db.Jobs().Settle(ctx, []job.Settlement{
			{Ref: claimed[0].Ref(), Kind: job.KindComplete}, {Ref: claimed[1].Ref(), Kind: job.KindComplete},
		})...)
	}()
	awaitLocks(t, pool, 2)
	if err := errors.Join(first.Rollback(ctx), <-errs, <-errs); err != nil {
		t.Error(err)
	}
}

func TestJ9AnExistingIDIsAConflictInATransaction(t *testing.T) {
	insertInEachKind(t, func(t *testing.T, _ *postgres.Jobs, insertTx func(...job.Insert) ([]job.Receipt, error), _ func() error) {
		in := insert()
		if _, err := insertTx(in, in); !errors.Is(err, job.ErrConflict) {
			t.Errorf("%v, want %v", err, job.ErrConflict)
		}
	})
}

// TestJ9ATransactionStoresAnyBytes: job.Inserts refuses such text, but a store keeps what it is given.
func TestJ9ATransactionStoresAnyBytes(t *testing.T) {
	insertInEachKind(t, func(t *testing.T, store *postgres.Jobs, insertTx func(...job.Insert) ([]job.Receipt, error), commit func() error) {
		in := insert()
		in.UniqueKey, in.Meta = "k\x00\xff\\", map[string]string{`"\`: "a\x00b", "NULL": ""}
		_, err := insertTx(in)
		if err := errors.Join(err, commit()); err != nil {
			t.Fatal(err)
		}
		got, _, err := store.Get(t.Context(), in.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(job.New(in, got.CreatedAt), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

func beginRequest(key, owner string) idempotency.BeginRequest {
	return idempotency.BeginRequest{ID: idempotency.ID{Tenant: "a", Operation: "o", Key: key}, Owner: owner, Lease: time.Minute}
}

var completion = idempotency.Settlement{State: idempotency.Completed, TTL: time.Hour}

// TestI8OthersWaitForATransactionThatHoldsTheKey checks that others neither run nor fail until the transaction ends.
func TestI8OthersWaitForATransactionThatHoldsTheKey(t *testing.T) {
	for _, released := range []bool{false, true} { // a new key, and a key whose row exists
		for _, commit := range []bool{false, true} {
			ctx := context.Background()
			db, _ := open(t)
			store := db.Idempotency()
			if released {
				b, err := store.Begin(ctx, beginRequest("k", "before"))
				if err == nil {
					err = store.Settle(ctx, b.Record.Claim(), idempotency.Settlement{State: idempotency.Released, TTL: time.Hour})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			tx := begin(t)
			held, err := store.BeginTx(ctx, tx, beginRequest("k", "holder"))
			if err != nil || held.Verdict != idempotency.Run {
				t.Fatalf("%+v, %v", held, err)
			}
			type answer struct {
				idempotency.Begun
				err error
			}
			answers := make(chan answer, 1)
			go func() {
				b, err := store.Begin(ctx, beginRequest("k", "waiter"))
				answers <- answer{b, err}
			}()
			waitForLock(t, tx.Conn())
			if err := store.SettleTx(ctx, tx, held.Record.Claim(), completion); err != nil {
				t.Fatal(err)
			}
			want := idempotency.Run
			if commit {
				want, err = idempotency.Replay, tx.Commit(ctx)
			} else {
				err = tx.Rollback(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := <-answers; got.err != nil || got.Verdict != want {
				t.Errorf("released %v, commit %v: %s, %v; want %s", released, commit, got.Verdict, got.err, want)
			}
		}
	}
}

// waitForLock returns when a session waits for a lock that this connection holds.
func waitForLock(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for waiting := 0; waiting == 0; {
		const blocked = `SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`
		if err := conn.QueryRow(context.Background(), blocked).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

func TestI6AMissingTableIsReportedWithItsRemedy(t *testing.T) {
	ctx := context.Background()
	db, _ := openUnmigrated(t)
	store, events := db.Idempotency(), db.Audit()
	_, begin := store.Begin(ctx, beginRequest("k", "o"))
	_, get := store.Get(ctx, idempotency.ID{Key: "k"})
	_, heads := events.Heads(ctx)
	for name, err := range map[string]error{
		"begin": begin, "get": get, "settle": store.Settle(ctx, idempotency.Claim{}, completion), "clear": store.Clear(ctx, idempotency.Claim{}),
		"heads": heads, "read": events.Read(ctx, "", nil),
	} {
		if !errors.Is(err, postgres.ErrNotMigrated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
