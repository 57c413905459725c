package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

func TestOpenMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "Options.Create") {
		t.Fatalf("error %v, want %v with the path and the remedy", err, os.ErrNotExist)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("the file was created")
	}
}

func TestOpenAFileThatIsNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	text := []byte(strings.Repeat("these are notes, not jobs\n", 400))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: create}); !errors.Is(err, sqlite.ErrNotDatabase) || !strings.Contains(err.Error(), path) {
			t.Errorf("create %v: error %v, want %v with the path", create, err, sqlite.ErrNotDatabase)
		}
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, text) {
		t.Error("the file was changed")
	}
	if _, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{Create: true}); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := sqlite.Open(t.Context(), ":memory:", sqlite.Options{Create: true}); err == nil {
		t.Error("a file in memory was opened")
	}
}

func TestADamagedFileIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := openFile(t, path)
	fill(t, db.Jobs(), 5000)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := f.Stat()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, int(info.Size())-3*4096), 3*4096); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	db, err = sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil {
		_, err = db.Jobs().Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 100}}, Lease: time.Minute})
		_ = db.Close()
	}
	if !errors.Is(err, sqlite.ErrNotDatabase) {
		t.Fatalf("error %v, want %v", err, sqlite.ErrNotDatabase)
	}
}

func TestJ14OperationsOnTablesThatAreNotUpToDate(t *testing.T) {
	ctx := t.Context()
	db := open(t)
	jobs, policies := db.Jobs(), db.Policies()
	operations := map[string]func() error{
		"stats":     func() error { _, err := jobs.Stats(ctx); return err },
		"causes":    func() error { _, err := jobs.Causes(ctx, job.CauseQuery{}); return err },
		"maintain":  func() error { _, err := jobs.Maintain(ctx, job.Maintenance{Limit: 1}); return err },
		"set queue": func() error { return jobs.SetQueue(ctx, job.QueueState{Queue: "a"}) },
		"settings":  func() error { _, _, err := jobs.Settings(ctx, -1); return err },
		"publish":   func() error { return jobs.Publish(ctx, []job.Event{{}}) },
		"announce":  func() error { return jobs.Announce(ctx, job.WorkerInfo{Name: "w"}, time.Minute) },
		"find": func() error {
			return db.Audit().Find(ctx, audit.Query{Type: audit.PolicyChanged}, func(string, []byte) error { return nil })
		},
		"save clients": func() error { return policies.SaveClients(ctx, []policystore.Client{{Document: "d", ID: "c"}}) },
		"limits":       func() error { _, err := db.Limits().Load(ctx, []string{"l"}); return err },
	}
	for {
		for name, operation := range operations {
			if err := operation(); err != nil && !errors.Is(err, sqlite.ErrNotMigrated) {
				t.Errorf("%s: %v", name, err)
			}
		}
		steps, err := db.Migrate(ctx, migrate.Down, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) == 0 {
			return
		}
	}
}

func TestJ14OperationsBeforeMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.db")
	app, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Exec(`CREATE TABLE customer (name TEXT)`); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	db := openWith(t, path, sqlite.Options{})
	if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)}); !errors.Is(err, sqlite.ErrNotMigrated) {
		t.Errorf("enqueue: %v, want %v", err, sqlite.ErrNotMigrated)
	}
	if _, err := db.Jobs().Stats(t.Context()); !errors.Is(err, sqlite.ErrNotMigrated) {
		t.Errorf("stats: %v, want %v", err, sqlite.ErrNotMigrated)
	}
	steps, err := db.Migrate(t.Context(), migrate.Up, true)
	if err != nil || len(steps) == 0 || !strings.Contains(steps[0].SQL, "CREATE TABLE tenet_job") || !strings.Contains(steps[0].SQL, "CREATE TABLE IF NOT EXISTS tenet_migration") {
		t.Errorf("dry run: %v, %v", steps, err)
	}
	if status, err := db.MigrationStatus(t.Context()); err != nil || status[0].Applied {
		t.Errorf("status after a dry run: %+v, %v", status, err)
	}
	for _, s := range steps {
		if _, err := app.Exec(s.SQL); err != nil {
			t.Fatalf("%s by hand: %v", s, err)
		}
	}
	if steps, err := db.Migrate(t.Context(), migrate.Up, false); err != nil || len(steps) != 0 {
		t.Fatalf("up after all steps were taken by hand: %v, %v", steps, err)
	}
	if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)}); err != nil {
		t.Errorf("enqueue after the migration: %v", err)
	}
	status, err := db.MigrationStatus(t.Context())
	if err != nil || !status[0].Applied || status[0].AppliedAt.IsZero() {
		t.Errorf("status: %+v, %v", status, err)
	}
	for range status {
		if _, err := db.Migrate(t.Context(), migrate.Down, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)}); !errors.Is(err, sqlite.ErrNotMigrated) {
		t.Errorf("enqueue after down: %v, want %v", err, sqlite.ErrNotMigrated)
	}
	tx := begin(t, db)
	if _, err := tx.Exec(`INSERT INTO customer VALUES ('Ann')`); err != nil {
		t.Errorf("the other table: %v", err)
	}
}

func TestJ14EightMigratorsAtOnce(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "jobs.db")
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				db, err := sqlite.Open(context.Background(), path, sqlite.Options{Create: true})
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = db.Close() }()
				if _, err := db.Jobs().Enqueue(context.Background(), []job.Insert{number(worker)}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		db := openFile(t, path)
		if list, err := db.Jobs().List(t.Context(), job.Filter{}, "", 100); err != nil || len(list) != 8 {
			t.Errorf("%d jobs, %v", len(list), err)
		}
		if steps, err := db.Migrate(t.Context(), migrate.Up, false); err != nil || len(steps) != 0 {
			t.Errorf("migrating again: %v, %v", steps, err)
		}
	}
}

func TestJ14TablesOfANewerProgramAreRefused(t *testing.T) {
	db := open(t)
	tx := begin(t, db)
	if _, err := tx.Exec(`INSERT INTO tenet_migration VALUES (99, 'future', 0)`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		if again, err := sqlite.Open(t.Context(), db.Path(), sqlite.Options{Create: create}); err == nil {
			_ = again.Close()
			t.Errorf("create %v: opened", create)
		}
	}
}

// TestABadInsertDoesNotFailOthers lets many callers enqueue at once, some of them with an existing ID.
func TestABadInsertDoesNotFailOthers(t *testing.T) {
	db := open(t)
	fill(t, db.Jobs(), 1)
	hold := begin(t, db) // so that the callers form one group
	const callers = 200
	errs := make([]error, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			in := number(i)
			if i%10 == 0 {
				in = number(0)
			}
			var receipts []job.Receipt
			receipts, errs[i] = db.Jobs().Enqueue(context.Background(), []job.Insert{in})
			if errs[i] == nil && (len(receipts) != 1 || receipts[0].ID != in.ID || receipts[0].Durability != job.GroupCommitted) {
				t.Errorf("caller %d: receipts %+v", i, receipts)
			}
		})
	}
	group.Go(func() {
		if _, err := db.Jobs().Maintain(context.Background(), job.Maintenance{Limit: 10}); err != nil {
			t.Error(err)
		}
	})
	if err := hold.Rollback(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	for i, err := range errs {
		if bad := i%10 == 0; bad != errors.Is(err, job.ErrConflict) || !bad && err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	list, err := db.Jobs().List(t.Context(), job.Filter{}, "", 1000)
	if want := callers - callers/10 + 1; err != nil || len(list) != want {
		t.Errorf("%d jobs, want %d, %v", len(list), want, err)
	}
}

func TestCloseWritesAcceptedJobs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := openFile(t, path)
	var mu sync.Mutex
	accepted := map[string]bool{}
	var group sync.WaitGroup
	started := make(chan struct{}, 8)
	for worker := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				in := number(worker*1_000_000 + i)
				if _, err := db.Jobs().Enqueue(context.Background(), []job.Insert{in}); err != nil {
					if !errors.Is(err, job.ErrClosed) {
						t.Errorf("enqueue: %v", err)
					}
					return
				}
				mu.Lock()
				accepted[in.ID] = true
				mu.Unlock()
				if i == 10 {
					started <- struct{}{}
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if _, err := os.Stat(path + "-wal"); err == nil {
		t.Error("the log still exists")
	}
	if _, err := db.BeginTx(t.Context()); !errors.Is(err, job.ErrClosed) {
		t.Errorf("begin: %v, want %v", err, job.ErrClosed)
	}
	list, err := openFile(t, path).Jobs().List(t.Context(), job.Filter{}, "", 1_000_000)
	if err != nil || len(list) != len(accepted) {
		t.Fatalf("%d jobs, %d accepted, %v", len(list), len(accepted), err)
	}
}

func TestABusyFileIsWaitedForAndThenReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	other := openFile(t, path)
	db := openWith(t, path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	tx := begin(t, other)
	if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)}); !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("enqueue: %v, want %v", err, sqlite.ErrBusy)
	}
	if _, err := db.BeginTx(t.Context()); !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("begin: %v, want %v", err, sqlite.ErrBusy)
	}
	if list, err := db.Jobs().List(t.Context(), job.Filter{}, "", 10); err != nil || len(list) != 0 {
		t.Errorf("reading does not wait: %v, %v", list, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)}); err != nil {
		t.Error(err)
	}
}

func TestAnEndedContextLeavesTheQueue(t *testing.T) {
	db := open(t)
	tx := begin(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := db.Jobs().Enqueue(ctx, []job.Insert{number(1)})
		left <- err
	}()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	fill(t, db.Jobs(), 1)
	if _, _, err := db.Jobs().Get(t.Context(), number(1).ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("get: %v, want %v", err, job.ErrNotFound)
	}
}

func TestDurabilityOfReceipts(t *testing.T) {
	for synchronous, want := range map[sqlite.Synchronous]job.Durability{
		"": job.GroupCommitted, sqlite.Full: job.GroupCommitted, sqlite.Normal: sqlite.OSBuffered,
	} {
		db := openWith(t, filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{Create: true, Synchronous: synchronous})
		receipts, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)})
		if err != nil || receipts[0].Durability != want {
			t.Errorf("%q: %+v, %v, want %s", synchronous, receipts, err, want)
		}
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{Create: true, Synchronous: "off"}); err == nil {
		t.Error("synchronous off was accepted")
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	for _, name := range []string{"a b.db", "what?mode=memory", "100%25.db", "hash#.db", "ü.db"} {
		path := filepath.Join(t.TempDir(), name)
		openFile(t, path)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	t.Chdir(t.TempDir())
	openFile(t, "relative.db")
	if _, err := os.Stat("relative.db"); err != nil {
		t.Error(err)
	}
}

// check runs SQLite's integrity check on a file.
func check(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	result := ""
	if err := db.QueryRow(`PRAGMA integrity_check`).Scan(&result); err != nil || result != "ok" {
		t.Errorf("integrity check: %s, %v", result, err)
	}
}

// TestJ1AFileThatWasRemovedOrReplacedIsNotWrittenTo: whoever opens the path next must find everything acknowledged.
func TestJ1AFileThatWasRemovedOrReplacedIsNotWrittenTo(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"replaced": func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.WriteFile(path, nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			db := openFile(t, path)
			client := job.NewClient(db.Jobs())
			if _, err := client.Enqueue(t.Context(), job.Request{Type: "a"}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(begin(t, db).Rollback(), change(path)); err != nil { // the connection stays in the pool
				t.Fatal(err)
			}
			if tx, err := db.BeginTx(t.Context()); err == nil {
				t.Errorf("begin does not notice; %v", tx.Rollback())
			} else if !strings.Contains(err.Error(), "was removed or replaced while it was open") {
				t.Errorf("begin: %v", err)
			}
			if _, err := client.Enqueue(t.Context(), job.Request{Type: "a"}); err == nil || !strings.Contains(err.Error(), "was removed or replaced while it was open") {
				t.Errorf("enqueue: %v", err)
			}
			if _, err := db.Jobs().Maintain(t.Context(), job.Maintenance{Limit: 1}); err == nil {
				t.Error("maintain does not notice")
			}
		})
	}
}

// TestJ1AFileThatIsReplacedWhileAWriterWaits: another process holds the lock, and the file is gone when the lock is free.
func TestJ1AFileThatIsReplacedWhileAWriterWaits(t *testing.T) {
	beginTx := func(db *sqlite.DB) error {
		tx, err := db.BeginTx(t.Context())
		if err == nil {
			err = tx.Commit()
		}
		return err
	}
	enqueue := func(db *sqlite.DB) error {
		_, err := job.NewClient(db.Jobs()).Enqueue(t.Context(), job.Request{Type: "a"})
		return err
	}
	for name, write := range map[string]func(*sqlite.DB) error{"begin": beginTx, "enqueue": enqueue} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.db")
			db, other := openFile(t, path), openFile(t, path)
			tx := begin(t, other)
			done := make(chan error, 1)
			go func() { done <- write(db) }()
			time.Sleep(100 * time.Millisecond)
			if err := errors.Join(os.Rename(path, path+".old"), tx.Rollback()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err == nil || !strings.Contains(err.Error(), "was removed or replaced while it was open") {
				t.Errorf("%v", err)
			}
		})
	}
}
