package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
)

func beginRequest(owner string) idempotency.BeginRequest {
	return idempotency.BeginRequest{
		ID: idempotency.ID{Tenant: "a\x00\xff", Operation: `"{}\`, Key: "k"}, Fingerprint: "f\x00", Owner: owner, Lease: time.Minute, PolicyHash: "p\xff",
	}
}

var completion = idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte("\x00\xff{},NULL\\"), TTL: time.Hour}

// TestI5EffectAndRecordCommitTogether begins, has its effect and settles in one transaction.
func TestI5EffectAndRecordCommitTogether(t *testing.T) {
	db := open(t)
	store := db.Idempotency()
	begin := func() (rollback func() error, commit func() error) {
		t.Helper()
		tx, err := db.BeginTx(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun, err := store.BeginTx(t.Context(), tx, beginRequest("o"))
		if err != nil || begun.Verdict != idempotency.Run || begun.Record.Fence != 1 {
			t.Fatalf("%+v, %v", begun, err)
		}
		_, err = db.Jobs().InsertTx(t.Context(), tx, []job.Insert{number(1)}) // the effect
		if err := errors.Join(err, store.SettleTx(t.Context(), tx, begun.Record.Claim(), completion)); err != nil {
			t.Fatal(err)
		}
		stale := begun.Record.Claim()
		stale.Fence++
		if err := store.SettleTx(t.Context(), tx, stale, completion); !errors.Is(err, idempotency.ErrFenced) {
			t.Fatalf("%v, want %v", err, idempotency.ErrFenced)
		}
		if _, err := store.Get(t.Context(), begun.Record.ID); !errors.Is(err, idempotency.ErrNotFound) {
			t.Fatalf("before the end: %v", err)
		}
		return tx.Rollback, tx.Commit
	}
	rollback, _ := begin()
	if err := rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), beginRequest("").ID); !errors.Is(err, idempotency.ErrNotFound) || count(t, db) != 0 {
		t.Fatalf("after the rollback: %d jobs, %v", count(t, db), err)
	}
	_, commit := begin()
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	stored, err := store.Get(t.Context(), beginRequest("").ID)
	if err != nil || stored.State != idempotency.Completed || count(t, db) != 1 {
		t.Fatalf("after the commit: %d jobs, %+v, %v", count(t, db), stored, err)
	}
	again, err := store.Begin(t.Context(), beginRequest("another"))
	if diff := cmp.Diff(idempotency.Begun{Verdict: idempotency.Replay, Record: stored}, again); err != nil || diff != "" {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
}

// TestI5AFencedSettlementSpoilsNoOtherWrite: operations of a group share a transaction, not their outcome.
func TestI5AFencedSettlementSpoilsNoOtherWrite(t *testing.T) {
	db := open(t)
	store := db.Idempotency()
	begun, err := store.Begin(t.Context(), beginRequest("o"))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context()) // what follows gathers behind it
	if err != nil {
		t.Fatal(err)
	}
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
	if got, err := store.Get(t.Context(), begun.Record.ID); err != nil || got.State != idempotency.Completed || fenced != 1 || count(t, db) != 1 {
		t.Fatalf("%d fenced, %d jobs, %+v, %v", fenced, count(t, db), got, err)
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
