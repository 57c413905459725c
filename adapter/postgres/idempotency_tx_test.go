package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/idempotency"
)

// guarded is a transaction that holds an effect and its record.
type guarded struct {
	begin    func(idempotency.BeginRequest) (idempotency.Begun, error)
	settle   func(idempotency.Claim, idempotency.Settlement) error
	effect   func() error
	commit   func() error
	rollback func() error
}

// inEachGuarded runs a test in both kinds of transaction. effects counts what has been committed.
func inEachGuarded(t *testing.T, f func(t *testing.T, store *postgres.Idempotency, begin func() guarded, effects func() int)) {
	ctx := context.Background()
	const table, effect = `CREATE TEMP TABLE effect (n int)`, `INSERT INTO effect VALUES (1)`
	count := `SELECT count(*) FROM effect`
	t.Run("pgx", func(t *testing.T) {
		db, _ := open(t)
		store := db.Idempotency()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, table); err != nil {
			t.Fatal(err)
		}
		f(t, store, func() guarded {
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return guarded{
				begin:    func(r idempotency.BeginRequest) (idempotency.Begun, error) { return store.BeginTx(ctx, tx, r) },
				settle:   func(c idempotency.Claim, s idempotency.Settlement) error { return store.SettleTx(ctx, tx, c, s) },
				effect:   func() error { _, err := tx.Exec(ctx, effect); return err },
				commit:   func() error { return tx.Commit(ctx) },
				rollback: func() error { return tx.Rollback(ctx) },
			}
		}, func() (n int) {
			if err := conn.QueryRow(ctx, count).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		db, _ := open(t)
		store := db.Idempotency()
		pool, err := sql.Open("pgx", url)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		pool.SetMaxOpenConns(1) // which has the temporary table
		if _, err := pool.Exec(table); err != nil {
			t.Fatal(err)
		}
		f(t, store, func() guarded {
			tx, err := pool.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			return guarded{
				begin:    func(r idempotency.BeginRequest) (idempotency.Begun, error) { return store.SQL().BeginTx(ctx, tx, r) },
				settle:   func(c idempotency.Claim, s idempotency.Settlement) error { return store.SQL().SettleTx(ctx, tx, c, s) },
				effect:   func() error { _, err := tx.Exec(effect); return err },
				commit:   tx.Commit,
				rollback: tx.Rollback,
			}
		}, func() (n int) {
			if err := pool.QueryRow(count).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		})
	})
}

func beginRequest(key, owner string) idempotency.BeginRequest {
	return idempotency.BeginRequest{
		ID: idempotency.ID{Tenant: "a\x00\xff", Operation: `"{}\`, Key: key}, Fingerprint: "f\x00", Owner: owner, Lease: time.Minute, PolicyHash: "p\xff",
	}
}

var completion = idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte("\x00\xff{},NULL\\"), TTL: time.Hour}

// TestI5EffectAndRecordCommitTogether begins, has its effect and settles in one transaction.
func TestI5EffectAndRecordCommitTogether(t *testing.T) {
	inEachGuarded(t, func(t *testing.T, store *postgres.Idempotency, begin func() guarded, effects func() int) {
		ctx := context.Background()
		for n, commit := range []bool{false, true} {
			tx := begin()
			begun, err := tx.begin(beginRequest("k", "o"))
			if err != nil || begun.Verdict != idempotency.Run || begun.Record.Fence != 1 || !begun.Record.Lease.Equal(begun.Record.Created.Add(time.Minute)) {
				t.Fatalf("round %d: %+v, %v", n, begun, err)
			}
			if err := errors.Join(tx.effect(), tx.settle(begun.Record.Claim(), completion), tx.settle(begun.Record.Claim(), completion)); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Get(ctx, begun.Record.ID); !errors.Is(err, idempotency.ErrNotFound) {
				t.Fatalf("before the end: %v", err)
			}
			if !commit {
				if err := tx.rollback(); err != nil || effects() != 0 {
					t.Fatalf("%d effects, %v", effects(), err)
				}
				if _, err := store.Get(ctx, begun.Record.ID); !errors.Is(err, idempotency.ErrNotFound) {
					t.Fatalf("after the rollback: %v", err)
				}
				continue
			}
			if err := tx.commit(); err != nil || effects() != 1 {
				t.Fatalf("%d effects, %v", effects(), err)
			}
		}
		stored, err := store.Get(ctx, beginRequest("k", "o").ID)
		if err != nil || stored.State != idempotency.Completed || string(stored.Result) != string(completion.Result) {
			t.Fatalf("%+v, %v", stored, err)
		}
		tx := begin()
		defer tx.rollback()
		again, err := tx.begin(beginRequest("k", "another"))
		if diff := cmp.Diff(idempotency.Begun{Verdict: idempotency.Replay, Record: stored}, again); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// TestI5AFencedSettlementLeavesTheTransactionUsable: the caller decides to roll back, the server does not.
func TestI5AFencedSettlementLeavesTheTransactionUsable(t *testing.T) {
	inEachGuarded(t, func(t *testing.T, store *postgres.Idempotency, begin func() guarded, effects func() int) {
		ctx := context.Background()
		first, err := store.Begin(ctx, beginRequest("k", "o"))
		if err != nil {
			t.Fatal(err)
		}
		tx := begin()
		stale := first.Record.Claim()
		stale.Fence++
		if err := tx.settle(stale, completion); !errors.Is(err, idempotency.ErrFenced) {
			t.Fatalf("%v, want %v", err, idempotency.ErrFenced)
		}
		if b, err := tx.begin(beginRequest("k", "another")); err != nil || b.Verdict != idempotency.Busy || b.RetryAfter <= 0 {
			t.Fatalf("%+v, %v", b, err)
		}
		if err := tx.settle(first.Record.Claim(), idempotency.Settlement{State: idempotency.Released, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		second, err := tx.begin(beginRequest("k", "another"))
		if err != nil || second.Verdict != idempotency.Run || second.Record.Fence != 2 || second.Record.Attempts != 2 {
			t.Fatalf("%+v, %v", second, err)
		}
		failure := idempotency.Settlement{State: idempotency.Failed, Failure: &idempotency.Failure{Type: "t\x00", Message: "\xff"}, TTL: time.Hour}
		if err := errors.Join(tx.settle(second.Record.Claim(), failure), tx.effect(), tx.commit()); err != nil || effects() != 1 {
			t.Fatalf("%d effects, %v", effects(), err)
		}
		got, err := store.Get(ctx, first.Record.ID)
		if diff := cmp.Diff(failure.Failure, got.Failure); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// TestI8OthersWaitForATransactionThatHoldsTheKey: they neither run nor fail, but see what it came to.
func TestI8OthersWaitForATransactionThatHoldsTheKey(t *testing.T) {
	for _, released := range []bool{false, true} { // a key that is new, and one whose row is there
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
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			tx, err := conn.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
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
			waitForLock(t, conn)
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

// waitForLock returns when somebody waits for a lock that this connection holds.
func waitForLock(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for waiting := 0; waiting == 0; {
		const blocked = `SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`
		if err := conn.QueryRow(context.Background(), blocked).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

func TestI6AMissingTableIsToldWithItsRemedy(t *testing.T) {
	ctx := context.Background()
	db, _ := unmade(t)
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
