package postgres

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/migrate"
)

func openEvents(t *testing.T, name string) *DB {
	t.Helper()
	ctx := context.Background()
	db, err := Open(ctx, os.Getenv("DATABASE_URL"), Options{Schema: fmt.Sprint(name, os.Getpid()), MaxConns: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
		t.Fatal(err)
	}
	return db
}

func events(chain string, from, n int) []audit.Entry {
	var list []audit.Entry
	for i := from; i < from+n; i++ {
		id := fmt.Sprint(chain, "-", i)
		list = append(list, audit.Entry{
			Event: &audit.Event{ID: id, ChainID: chain, Seq: uint64(i), Hash: id, Type: audit.RetryAttempt, WorkID: fmt.Sprint("w", i%1000), Time: time.Now()},
			Line:  []byte(id),
		})
	}
	return list
}

// readFrom returns the lines after a cursor, and the last cursor.
func readFrom(t *testing.T, a *Audit, after string) (lines []string, last string) {
	t.Helper()
	last = after
	err := a.Read(context.Background(), after, func(cursor string, line []byte) error {
		lines, last = append(lines, string(line)), cursor
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, last
}

// TestA2AReaderDoesNotSkipALateCommit: an event gets its position before the commit. If a later position became visible
// before an earlier one, a reader would continue after it and never see the earlier one.
func TestA2AReaderDoesNotSkipALateCommit(t *testing.T) {
	ctx := context.Background()
	db := openEvents(t, "late")
	a := db.Audit()
	if err := a.Append(ctx, events("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	lines, cursor := readFrom(t, a, "")
	if diff := cmp.Diff([]string{"a-1"}, lines); diff != "" {
		t.Fatal(diff)
	}
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	b := &pgx.Batch{}
	a.queue(b, events("a", 2, 1)) // has its position now
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- db.Audit().Append(ctx, events("b", 1, 1)) }()
	for waiting := 0; waiting == 0; {
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			t.Fatalf("the later batch is stored before the earlier one: %v", err)
		default:
		}
	}
	if lines, _ := readFrom(t, a, cursor); len(lines) != 0 {
		t.Fatalf("before the commit: %q", lines)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	lines, _ = readFrom(t, a, cursor)
	if diff := cmp.Diff([]string{"a-2", "b-1"}, lines); diff != "" {
		t.Fatal(diff)
	}
}

// TestA2AppendsWhoseConnectionsAreCutAreRepeated terminates the server's sessions of appends at random moments. A failed append
// is repeated, as Log does it.
func TestA2AppendsWhoseConnectionsAreCutAreRepeated(t *testing.T) {
	ctx := context.Background()
	db, killer := openEvents(t, "cut"), openEvents(t, "cut")
	a := db.Audit()
	kill := func(state string) (hit int) {
		err := killer.pool.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND `+state+` AND query LIKE '%cut' || $1 || '%.audit %'`, fmt.Sprint(os.Getpid())).Scan(&hit)
		if err != nil {
			t.Error(err)
			return 1
		}
		return hit
	}
	var want []string
	failures := 0
	for i := range 100 {
		list := events("a", 1+20*i, 20)
		for _, e := range list {
			want = append(want, string(e.Line))
		}
		var killing sync.WaitGroup
		switch i % 5 {
		case 0: // the append comes as far as the table, where its connection is cut
			tx, err := killer.pool.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(ctx, killer.sql(`LOCK TABLE {{schema}}.audit IN SHARE MODE`)); err != nil {
				t.Fatal(err)
			}
			killing.Go(func() {
				for kill(`wait_event_type = 'Lock'`) == 0 {
					<-time.After(time.Millisecond)
				}
				_ = tx.Rollback(ctx)
			})
		case 1: // it is cut anywhere, or not at all
			killing.Go(func() {
				for range 20 {
					kill(`state = 'active'`)
				}
			})
		}
		for a.Append(ctx, list) != nil {
			failures++
		}
		killing.Wait()
	}
	if failures < 20 {
		t.Errorf("%d appends failed, at least the 20 that waited should", failures)
	}
	got, _ := readFrom(t, killer.Audit(), "") // over connections that were not cut
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	t.Logf("%d appends failed", failures)
}

// TestA2LinesAreKeptByteForByteAndWorkOfAnyLengthIsFound: a sink that rejects an event would block the log.
func TestA2LinesAreKeptByteForByteAndWorkOfAnyLengthIsFound(t *testing.T) {
	db := openEvents(t, "bytes")
	a := db.Audit()
	list := events("c\x00\xff", 1, 1)
	list[0].Line = []byte("\x00\xff\xfe line\n")
	long := make([]byte, 100_000)
	for i := range long {
		long[i] = byte(i*7919>>3) | 1 // does not compress
	}
	list[0].Event.WorkID, list[0].Event.Category, list[0].Event.ID = string(long), "\x00\xff", "\x00\xff"
	if err := a.Append(context.Background(), list); err != nil {
		t.Fatal(err)
	}
	lines, _ := readFrom(t, a, "")
	if diff := cmp.Diff([]string{string(list[0].Line)}, lines); diff != "" {
		t.Fatal(diff)
	}
	heads, err := a.Heads(context.Background())
	if diff := cmp.Diff([]audit.Head{{ChainID: "c\x00\xff", Seq: 1, Hash: "c\uFFFD\uFFFD-1"}}, heads); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
}
