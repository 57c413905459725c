package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/sharing"
)

// JobTTL is how long the key of a job is kept after its effect: longer than operators take to requeue a job.
const JobTTL = 30 * 24 * time.Hour

// JobStore is the interface of all job stores: those of package adapter, and servers.
type JobStore interface {
	job.Store
	job.Admin
	job.FlowStore
	job.Limiter
	job.Redriver
	job.Registry
	job.Searcher
	job.SettingStore
}

// RecordStore stores idempotency records, and an audit log of their changes.
type RecordStore struct {
	records
	Audit AuditStore // nil for a server, which records the changes that it makes
	Close func() error
}

type records interface {
	idempotency.Store
	idempotency.Admin
}

// AuditStore is an audit log that is read and written.
type AuditStore interface {
	audit.Sink
	audit.Source
}

// All is everything that a SQLite file or a PostgreSQL database stores.
type All struct {
	Database
	Jobs     JobStore
	Records  *RecordStore
	Log      AuditStore
	Policies policystore.Store
	limits   sharing.Store
}

// Database is a store with migrations.
type Database interface {
	Migrate(ctx context.Context, d migrate.Direction, dryRun bool) ([]migrate.Step, error)
	MigrationStatus(ctx context.Context) ([]migrate.Status, error)
	Close() error
}

// Options holds the store of --store, and what may be created if it is missing.
type Options struct {
	URL     string
	Create  bool // create a missing SQLite file and its tables
	Migrate bool // create or update tables on PostgreSQL
	Memory  bool // accept a store in memory
	DryRun  bool // create nothing; a missing SQLite file is an empty store
}

// JobsFlag adds --store to a command, and --server in its place.
func JobsFlag(cmd *cobra.Command) *string {
	ServerFlags(cmd)
	return StoreFlag(cmd)
}

// StoreFlag adds --store to a command that needs the store itself.
func StoreFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("store", "", "job store: "+UseJobs.Forms()+" (also TENET_STORE)")
}

// Jobs opens the job store of --store.
func Jobs(ctx context.Context, a *cli.App, o Options) (JobStore, error) {
	if server, err := Target(ctx); server != nil || err != nil {
		return server.Jobs(), err
	}
	r := Ref{Flag: "store", URL: o.URL, Use: UseJobs}
	if o.Memory {
		r.Use = UseWorker
	}
	return openJobs(ctx, a, r, o)
}

func openJobs(ctx context.Context, a *cli.App, r Ref, o Options) (JobStore, error) {
	at, _, err := r.locate()
	switch {
	case err != nil:
		return nil, err
	case at.scheme == schemeMemory, at.scheme == schemeSQLite && o.Create && o.DryRun && cli.Missing(at.path):
		return memory.Open().Jobs(), nil
	}
	all, err := openAll(ctx, a, at, Options{Create: o.Create && !o.DryRun, Migrate: o.Migrate && !o.DryRun})
	if err != nil {
		return nil, err
	}
	return all.Jobs, nil
}

// Everything opens all that the store of --store has.
func Everything(ctx context.Context, a *cli.App, o Options) (*All, error) {
	at, _, err := Ref{Flag: "store", URL: o.URL, Use: UseJobs}.locate()
	if err != nil {
		return nil, err
	}
	return openAll(ctx, a, at, o)
}

// openAll opens a SQLite file or a PostgreSQL database. It refuses one without all tables, unless the options make them.
func openAll(ctx context.Context, a *cli.App, at location, o Options) (*All, error) {
	if at.scheme == schemeSQLite {
		db, err := openSQLite(ctx, at, o.Create)
		if err != nil {
			return nil, err
		}
		log := db.Audit()
		all := &All{db, db.Jobs(), &RecordStore{records: db.Idempotency(), Audit: log, Close: db.Close}, log, db.Policies(), db.Limits()}
		return all, migrated(ctx, db, false)
	}
	db, err := openPostgres(ctx, a, at)
	if err != nil {
		return nil, err
	}
	log := db.Audit()
	all := &All{db, db.Jobs(), &RecordStore{records: db.Idempotency(), Audit: log, Close: db.Close}, log, db.Policies(), db.Limits()}
	return all, migrated(ctx, db, o.Migrate)
}

// WithJobs runs f on the job store of --store and closes it.
func WithJobs(ctx context.Context, a *cli.App, o Options, f func(JobStore) error) error {
	store, err := Jobs(ctx, a, o)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// CheckShared returns an error unless other processes can open the job store of --store too.
func CheckShared(url string) error {
	_, _, err := Ref{Flag: "store", URL: url, Use: UseJobs}.locate()
	return err
}

// Records opens the store of idempotency records of a flag. create creates a missing SQLite file.
func Records(ctx context.Context, a *cli.App, r Ref, create bool) (*RecordStore, error) {
	if r.Flag == "store" {
		if server, err := Target(ctx); server != nil || err != nil {
			return serverRecords(server), err
		}
	}
	at, _, err := r.locate()
	if err != nil {
		return nil, err
	}
	if at.scheme == schemeNATS {
		db, err := natsstore.Open(ctx, at.URL, natsstore.Options{})
		if err != nil {
			return nil, err
		}
		return &RecordStore{records: db.Idempotency(), Audit: db.Audit(), Close: db.Close}, nil
	}
	all, err := openAll(ctx, a, at, Options{Create: create})
	if err != nil {
		return nil, err
	}
	return all.Records, nil
}

// Guard opens a guard over the store of --idempotency-store. closeStore closes the store.
func Guard(ctx context.Context, a *cli.App, url string, o idempotency.GuardOptions) (guard *idempotency.Guard, closeStore func() error, err error) {
	store, err := Records(ctx, a, Ref{Flag: "idempotency-store", URL: url, Use: UseRecords}, true)
	if err != nil {
		return nil, nil, err
	}
	if guard, err = idempotency.NewGuard(store, o); err != nil {
		return nil, nil, errors.Join(cli.AsUsage(err), store.Close())
	}
	return guard, store.Close, nil
}

// WithDatabase runs f on the database of --store, whose tables may be missing. o.Create creates a missing SQLite file; a dry run
// uses an empty temporary file instead.
func WithDatabase(ctx context.Context, a *cli.App, o Options, f func(Database) error) (err error) {
	at, _, err := Ref{Flag: "store", URL: o.URL, Use: UseJobs}.locate()
	if err != nil {
		return err
	}
	var db Database
	if at.scheme == schemePostgres {
		db, err = openPostgres(ctx, a, at)
	} else {
		if o.Create && cli.Missing(at.path) {
			if o.DryRun {
				folder, err := os.MkdirTemp("", "tenet")
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
				at.path = filepath.Join(folder, "empty.db")
			}
			if err := files.Create(at.path); err != nil { // an empty file is an empty database
				return err
			}
		}
		db, err = openSQLite(ctx, at, false)
	}
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

func openPostgres(ctx context.Context, a *cli.App, at location) (*postgres.DB, error) {
	return postgres.Open(ctx, at.URL, postgres.Options{Logger: a.Logger(a.Stderr, false)})
}

func openSQLite(ctx context.Context, at location, create bool) (*sqlite.DB, error) {
	db, err := sqlite.Open(ctx, at.path, sqlite.Options{Create: create})
	if create || !errors.Is(err, fs.ErrNotExist) {
		return db, err
	}
	hint := ""
	if at.Use == UseJobs || at.Use == UseWorker {
		hint = "; enqueue, jobs import, worker, demo and migrate up create it"
	}
	return nil, cli.Fail(cli.ExitNotFound, fmt.Errorf("store sqlite:%s does not exist%s", at.path, hint))
}

// migrated checks that a database has all its tables, after creating them if up is set. It closes a database that does not.
func migrated(ctx context.Context, db Database, up bool) error {
	if up {
		if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
			return errors.Join(err, db.Close())
		}
		return nil
	}
	list, err := db.MigrationStatus(ctx)
	for _, s := range list {
		if !s.Applied {
			err = cli.Fail(cli.ExitNotFound, fmt.Errorf("the store's tables are missing or not up to date (version %03d_%s): run `tenet migrate up --store URL`, or add --migrate to enqueue, jobs import or worker", s.Version, s.Name))
			break
		}
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}
