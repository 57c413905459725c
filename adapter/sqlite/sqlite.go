package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"

	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/internal/policysql"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Synchronous says when a commit is on the disk.
type Synchronous string

// The levels.
const (
	Full   Synchronous = "full"   // before it is acknowledged: a power failure loses nothing that was acknowledged
	Normal Synchronous = "normal" // at the next checkpoint: a crash of the process loses nothing, a power failure the last seconds
)

// OSBuffered is the durability in receipts under Normal: written to the operating system, not yet to the disk.
const OSBuffered job.Durability = "os_buffered"

// DefaultBusyTimeout bounds the wait for other processes and transactions unless Options say otherwise.
const DefaultBusyTimeout = 10 * time.Second

// Options configure a DB. The zero value opens an existing file.
type Options struct {
	// Create creates the file if it is missing, and Tenet's tables up to their newest version.
	Create bool
	// Synchronous says when a commit is flushed to the disk. Default Full.
	Synchronous Synchronous
	// BusyTimeout bounds how long an operation waits while another process or a transaction of BeginTx is writing.
	// Default 10 s.
	BusyTimeout time.Duration
}

// DB is an SQLite file with Tenet's tables. It is safe for concurrent use.
type DB struct {
	path     string
	origin   origin
	pool     *sql.DB // connections of readers, transactions of BeginTx and the writer, which keeps its own
	writer   *writer
	readers  readers
	turn     wait.Mutex  // held while the writer or BeginTx takes the file's lock, so that a busy writer alternates with others
	locked   atomic.Bool // the holder of the turn waits for another process or an open transaction
	options  Options
	jobs     *Jobs
	bell     bell
	policies *policysql.Store
}

// ErrNotMigrated is returned by operations while a table is missing or not up to date.
var ErrNotMigrated = errors.New("the tables are missing or not up to date: run `tenet migrate up`")

// ErrBusy is returned when another process or a transaction of BeginTx kept the file locked for longer than the busy timeout, or
// until the caller's context ended, whose error it then wraps too.
var ErrBusy = errors.New("the database is locked by another process or an open transaction: end it or wait for its end, then try again; keep transactions short")

// ErrNotDatabase is returned for a file that is not an SQLite database, or is damaged.
var ErrNotDatabase = errors.New("the file is not an SQLite database or is damaged: name another, or restore it from a backup")

// Open opens a file. For a missing file it returns an error that wraps os.ErrNotExist unless Create is set, and for a file
// that is not a database ErrNotDatabase; it refuses a file with tables of a newer program. Without Create, tables may be
// missing: operations then return ErrNotMigrated.
//
// Open switches the file to a write-ahead log, which adds two files beside it while it is open. The file must be on a local
// disk: network file systems do not lock reliably.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	if ctx == nil {
		return nil, errors.New("sqlite: Open: the context is nil")
	}
	o.Synchronous = cmp.Or(o.Synchronous, Full)
	o.BusyTimeout = cmp.Or(max(o.BusyTimeout, 0), DefaultBusyTimeout)
	if o.Synchronous != Full && o.Synchronous != Normal {
		return nil, fmt.Errorf("sqlite: synchronous %q: use %q or %q", o.Synchronous, Full, Normal)
	}
	if path == "" || strings.HasPrefix(path, ":memory:") {
		return nil, fmt.Errorf("sqlite: path %q: name a file; package adapter/memory keeps jobs in memory", path)
	}
	if err := prepare(path, o.Create); err != nil {
		return nil, err
	}
	source, err := dataSource(path, o)
	if err != nil {
		return nil, err
	}
	connector, err := driver.NewConnector(source)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	db := &DB{path: path, options: o, pool: sql.OpenDB(connector), turn: wait.NewMutex()}
	db.readers.turns = make(chan struct{}, maxReaders)
	db.policies = policysql.New(policyEngine{db})
	db.pool.SetMaxOpenConns(maxConns)
	db.pool.SetMaxIdleConns(maxConns)
	if err := db.start(ctx); err != nil {
		return nil, errors.Join(err, db.pool.Close())
	}
	return db, nil
}

// maxConns bounds the connections: the readers, the writer, the one that watches for other processes, an open transaction and the next.
const maxConns = maxReaders + 4

// dataSource returns the driver's name of a file. Checkpoints happen at SQLite's default, every 4 MiB of log: a commit that
// reuses the log is flushed in half the time of one that extends it.
func dataSource(path string, o Options) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlite: %s: %w", path, err)
	}
	absolute = filepath.ToSlash(absolute)
	if !strings.HasPrefix(absolute, "/") {
		absolute = "/" + absolute // file:///C:/…
	}
	q := url.Values{"mode": {"rw"}, "_txlock": {"immediate"}}
	q["_pragma"] = []string{
		"busy_timeout(0)", // patiently waits instead: unlike SQLite's own wait, it ends with the caller's context
		"synchronous(" + string(o.Synchronous) + ")", "fullfsync(1)", "checkpoint_fullfsync(1)", "cache_size(-8192)", "temp_store(memory)", "journal_size_limit(67108864)",
	}
	return (&url.URL{Scheme: "file", Path: absolute, RawQuery: q.Encode()}).String(), nil
}

// start prepares the file and starts the writer.
func (db *DB) start(ctx context.Context) error {
	conn, err := db.connect(ctx)
	if err != nil {
		return db.wrap("open", err)
	}
	mode := "" // reading it reads the header; setting it may fail at once while others do the same
	err = db.patiently(ctx, func() error { return conn.QueryRowContext(ctx, `PRAGMA journal_mode = wal`).Scan(&mode) })
	if err == nil && mode != "wal" {
		err = fmt.Errorf("the write-ahead log cannot be used, journal mode is %q: put the file on a local disk", mode)
	}
	if err != nil {
		return errors.Join(db.wrap("open", err), conn.Close())
	}
	if db.origin, err = originOf(db.path); err != nil {
		return errors.Join(db.wrap("open", err), conn.Close())
	}
	db.jobs = &Jobs{db: db}
	db.writer = newWriter(db, conn)
	if err = db.ready(ctx); err != nil {
		return errors.Join(err, db.writer.close())
	}
	return nil
}

// ready creates the tables if Create is set, and refuses those of a newer program.
func (db *DB) ready(ctx context.Context) error {
	if db.options.Create {
		_, err := db.Migrate(ctx, migrate.Up, false)
		return err
	}
	_, err := db.MigrationStatus(ctx)
	return err
}

// Jobs is the file's job store. All calls return the same one.
func (db *DB) Jobs() *Jobs { return db.jobs }

// Path returns the path that was passed to Open.
func (db *DB) Path() string { return db.path }

// BeginTx begins a transaction for the caller's own statements and for EnqueueTx, CompleteTx and the like. It has the file's
// write lock from the start: all other writers wait until it ends, so keep it short, and do not call the store's other
// methods that write before it ends.
func (db *DB) BeginTx(ctx context.Context) (*sql.Tx, error) {
	if ctx == nil {
		return nil, errors.New("sqlite: BeginTx: the context is nil")
	}
	if db.writer.closed() {
		return nil, job.ErrClosed
	}
	var tx *sql.Tx
	begin := func() (err error) {
		tx, err = db.pool.BeginTx(ctx, nil)
		return err
	}
	undo := func() {
		_ = tx.Rollback()
		tx = nil
	}
	err := db.lock(ctx, begin, undo)
	return tx, db.wrap("begin", err)
}

// lock waits for the caller's turn and runs begin, which takes the file's write lock, until the lock is free. If the file was removed or
// replaced, even while the caller waited, it runs undo and returns an error.
func (db *DB) lock(ctx context.Context, begin func() error, undo func()) error {
	if db.turn.Lock(ctx) != nil {
		return db.ended(ctx)
	}
	defer db.turn.Unlock()
	defer db.locked.Store(false)
	return db.patiently(ctx, func() error {
		err := begin()
		if gone := db.present(); gone != nil {
			if err == nil {
				undo()
			}
			err = gone
		}
		db.locked.Store(isBusy(err))
		return err
	})
}

// ended returns the error of a context that ended while its caller waited to write. It wraps ErrBusy if others have the lock.
func (db *DB) ended(ctx context.Context) error {
	if db.locked.Load() {
		return fmt.Errorf("%w (%w)", ErrBusy, ctx.Err())
	}
	return ctx.Err()
}

// connect takes a connection from the pool. Opening a connection reads the file, which others may have locked.
func (db *DB) connect(ctx context.Context) (conn *sql.Conn, err error) {
	err = db.patiently(ctx, func() error {
		conn, err = db.pool.Conn(ctx)
		return err
	})
	return conn, err
}

// Close commits the accepted operations, ends notifications and closes the file; the last process to close it merges the log
// into it. Operations return job.ErrClosed afterwards. Closing again does nothing.
func (db *DB) Close() error {
	err := db.writer.close()
	db.bell.close()
	db.policies.Close()
	return errors.Join(err, db.readers.close(), db.pool.Close())
}

// patiently repeats f while the file is busy, for the busy timeout at most. Waits are short and random, to hit the gaps of a
// process that writes without a break.
func (db *DB) patiently(ctx context.Context, f func() error) error {
	give := time.Now().Add(db.options.BusyTimeout)
	for {
		err := f()
		if !isBusy(err) || time.Now().After(give) {
			return err
		}
		if ended := pause(ctx); ended != nil {
			return fmt.Errorf("%w (%w)", err, ended)
		}
	}
}

// The primary result codes of SQLite that this package handles.
const (
	codeError    = 1
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIOErr    = 10
	codeCorrupt  = 11
	codeFull     = 13
	codeCantOpen = 14
	codeNotDB    = 26
)

// codeUnique is the extended code of a violated UNIQUE constraint; the only one is on tenet_job.id.
const codeUnique = 2067

// extended returns the extended result code of an error that SQLite reported, or 0.
func extended(err error) int {
	if reported, ok := errors.AsType[*driver.Error](err); ok {
		return reported.Code()
	}
	return 0
}

// code returns the primary result code.
func code(err error) int { return extended(err) & 0xff }

// outdated matches SQLite's errors about tables that are missing or not up to date. It leaves out other indexes, which an operator may remove.
var outdated = regexp.MustCompile(`no such table: tenet_|no such index: tenet_(audit|job)_|no such column|has no column named`)

func isBusy(err error) bool { return code(err) == codeBusy || code(err) == codeLocked }

// wrap adds the operation to an error, and the sentinel error for failures that callers handle.
func (db *DB) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if db.writer != nil && db.writer.closed() && extended(err) == 0 {
		return fmt.Errorf("sqlite: %s: %w (%w)", what, job.ErrClosed, err)
	}
	if extended(err) == codeUnique {
		return fmt.Errorf("sqlite: %s: %w: a job with this ID exists; give every job its own (%w)", what, job.ErrConflict, err)
	}
	if errors.Is(err, ErrBusy) {
		return fmt.Errorf("sqlite: %s: %s: %w", what, db.path, err)
	}
	switch code(err) {
	case codeBusy, codeLocked:
		return fmt.Errorf("sqlite: %s: %s: %w (%w)", what, db.path, ErrBusy, err)
	case codeReadOnly, codeCantOpen:
		return fmt.Errorf("sqlite: %s: %s: %s (%w)", what, db.path, unwritable(db.path), err)
	case codeFull, codeIOErr:
		return fmt.Errorf("sqlite: %s: %s: the disk is full or fails: make room for the file and the -wal and -shm beside it, or check the disk (%w)", what, db.path, err)
	case codeNotDB, codeCorrupt:
		return fmt.Errorf("sqlite: %s: %s: %w (%w)", what, db.path, ErrNotDatabase, err)
	case codeError:
		if outdated.MatchString(err.Error()) {
			return fmt.Errorf("sqlite: %s: %s: %w (%w)", what, db.path, ErrNotMigrated, err)
		}
	}
	return fmt.Errorf("sqlite: %s: %w", what, err)
}
