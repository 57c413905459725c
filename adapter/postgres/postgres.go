package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/internal/policysql"
	"github.com/tenetdev/tenet/job"
)

// DefaultSchema holds the tables unless Options say otherwise.
const DefaultSchema = "tenet"

// maxSchema leaves room in a channel's name, which has 63 bytes.
const maxSchema = 50

// Options configure a DB. The zero value works.
type Options struct {
	// Schema holds the tables. Default "tenet", at most 50 bytes.
	Schema string
	// MaxConns bounds the pool. Default: pool_max_conns of the URL, or the greater of 4 and the number of CPUs. Listening uses
	// one more connection.
	MaxConns int
	// Logger logs lost and restored connections for notifications. Default slog.Default().
	Logger *slog.Logger
}

// DB is a PostgreSQL database with Tenet's tables. It is safe for concurrent use.
type DB struct {
	pool     *pgxpool.Pool
	owned    bool   // the pool is closed with the DB
	schema   string // quoted
	name     string // of the schema
	log      *slog.Logger
	jobs     *Jobs
	policies *policysql.Store
	texts    sync.Map // of hot statements, with the schema
	closed   atomic.Bool
}

// kind begins the errors of this package.
const kind address.Kind = "postgres"

// ErrNoNotify is returned by Jobs.Notify if notifications do not arrive, for example behind PgBouncer in transaction mode.
var ErrNoNotify = errors.New("postgres: notifications do not arrive on this connection; connect without a transaction pooler to be woken")

// ErrNotMigrated is returned by all operations while the schema or a table is missing.
var ErrNotMigrated = errors.New("the schema is missing or not up to date: run `tenet migrate up`")

// Open connects to a server. The URL has the form that pgx accepts, postgres://user:password@host:port/database?sslmode=…,
// also with pool_ parameters. It returns an error when the server cannot be reached, and for a schema of a newer program; the
// schema may still be missing.
func Open(ctx context.Context, server string, o Options) (*DB, error) {
	if ctx == nil {
		return nil, errors.New("postgres: Open: the context is nil")
	}
	config, err := parse(server)
	if err != nil {
		return nil, err
	}
	if o.MaxConns > 0 {
		config.MaxConns = int32(o.MaxConns)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db, err := New(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	db.owned = true
	return db, nil
}

// parse reads a server's address. pgx's errors show the address, and hide the password only in a URL that can be parsed.
func parse(server string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(server)
	if err == nil {
		return config, nil
	}
	if u, unreadable := url.Parse(server); unreadable == nil && u.Scheme != "" {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return nil, errors.New("postgres: the server's URL cannot be read; write postgres://user:password@host:port/database, with %2F and the like in passwords")
}

// New makes a DB that uses the caller's pool and does not close it; it ignores Options.MaxConns.
// It returns an error when the server cannot be reached, and for a schema of a newer program; the schema may still be missing.
// Listening for notifications opens a connection beside the pool, with the pool's configuration and its BeforeConnect.
func New(ctx context.Context, pool *pgxpool.Pool, o Options) (*DB, error) {
	if ctx == nil {
		return nil, errors.New("postgres: New: the context is nil")
	}
	if pool == nil {
		return nil, errors.New("postgres: New: the pool is nil")
	}
	o.Schema = cmp.Or(o.Schema, DefaultSchema)
	if len(o.Schema) > maxSchema || strings.ContainsRune(o.Schema, 0) {
		return nil, fmt.Errorf("postgres: schema %q: use a name of at most %d bytes", o.Schema, maxSchema)
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	db := &DB{pool: pool, schema: pgx.Identifier{o.Schema}.Sanitize(), name: o.Schema, log: o.Logger}
	durable := false
	const settings = `SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'`
	if err := pool.QueryRow(ctx, settings).Scan(&durable); err != nil {
		return nil, kind.Wrap("connect", err)
	}
	// A role without the right to read the list of versions is not told about a newer schema.
	if _, err := db.MigrationStatus(ctx); err != nil && code(err) != insufficientPrivilege {
		return nil, err
	}
	db.jobs = newJobs(db, durable)
	db.policies = policysql.New(policyEngine{db})
	return db, nil
}

// Jobs is the database's job store. There is one for each DB.
func (db *DB) Jobs() *Jobs { return db.jobs }

// Close ends all operations and, unless the pool was passed to [New], closes the connections. It waits for enqueues that are
// being written. Closing again does nothing.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return nil
	}
	db.jobs.stop()
	db.policies.Close()
	if db.owned {
		db.pool.Close()
	}
	return nil
}

// sql inserts the schema into a statement.
func (db *DB) sql(text string) string { return migrate.Render(text, db.schema) }

// hot is sql for frequent statements, of which it keeps what it returns: their texts do not depend on arguments.
func (db *DB) hot(text string) string {
	if known, ok := db.texts.Load(text); ok {
		return known.(string)
	}
	full := db.sql(text)
	db.texts.Store(text, full)
	return full
}

// run sends a batch as one transaction in one round trip. The batch's callbacks receive the results.
func (db *DB) run(ctx context.Context, what string, b *pgx.Batch) error {
	if db.closed.Load() {
		return job.ErrClosed
	}
	return db.wrap(what, db.pool.SendBatch(ctx, b).Close())
}

// The SQLSTATE codes that this package handles.
const (
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedFunction    = "42883"
	invalidSchema        = "3F000"
	uniqueViolation      = "23505"
	deadlock             = "40P01"
	serializationFailure = "40001"
	divisionByZero       = "22012"
	lockNotAvailable     = "55P03"

	insufficientPrivilege = "42501"
)

// wrap adds the operation to an error, and the sentinel error for failures that callers handle.
func (db *DB) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if db.closed.Load() {
		return fmt.Errorf("postgres: %s: %w", what, job.ErrClosed)
	}
	switch code(err) {
	case undefinedTable, undefinedColumn, undefinedFunction, invalidSchema:
		return fmt.Errorf("postgres: %s: %w (%w)", what, ErrNotMigrated, err)
	case uniqueViolation:
		return fmt.Errorf("postgres: %s: %w: a job with this ID exists (%w)", what, job.ErrConflict, err)
	}
	return kind.Wrap(what, err)
}

// code returns the SQLSTATE of an error that the server reported, or "".
func code(err error) string {
	if reported, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reported.Code
	}
	return ""
}
