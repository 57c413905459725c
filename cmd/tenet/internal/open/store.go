package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
)

// JobStore is what all stores of this program can do.
type JobStore interface {
	job.Store
	job.Admin
}

// Database is a database with versions.
type Database interface {
	Migrate(ctx context.Context, d migrate.Direction, dryRun bool) ([]migrate.Step, error)
	MigrationStatus(ctx context.Context) ([]migrate.Status, error)
	Close() error
}

// Options says what may be done about a store that is missing.
type Options struct {
	Create  bool // a missing SQLite file, and its tables
	Migrate bool // missing or old tables on PostgreSQL
	Memory  bool // a store that ends with this process is of use to the command
	DryRun  bool // nothing may be made; a missing SQLite file is an empty store
}

// JobsFlag adds --store to a command.
func JobsFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("store", "", "job store: sqlite:PATH or postgres://… (also TENET_STORE)")
}

// The kinds of stores.
const (
	StoreMemory   = "memory"
	storeSQLite   = "sqlite"
	StorePostgres = "postgres"
)

// ParseStore takes a store's URL apart. PATH is what SQLite opens, the whole URL elsewhere.
func ParseStore(url string) (kind, path string, err error) {
	if err := address.Check(url); err != nil {
		return "", "", cli.Usagef("--store: %w", err)
	}
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case url == "":
		return "", "", cli.Usagef("no store given; write --store sqlite:jobs.db or set TENET_STORE")
	case !ok:
		return "", "", cli.Usagef("--store is not a URL; write sqlite:PATH, postgres://… or memory:")
	}
	switch scheme {
	case "memory":
		return StoreMemory, url, nil
	case "sqlite":
		if path = strings.TrimPrefix(rest, "//"); path == "" {
			return "", "", cli.Usagef("--store %s: the file is missing; write sqlite:jobs.db", url)
		}
		return storeSQLite, path, nil
	case "postgres", "postgresql":
		return StorePostgres, url, nil
	case "redis", "rediss":
		return "", "", cli.Usagef("--store %s:…: Redis is not supported by this build; use sqlite:PATH or postgres://…", scheme)
	}
	return "", "", cli.Usagef("--store %s:…: unknown kind of store; write sqlite:PATH, postgres://… or memory:", scheme)
}

// Jobs opens the store of a command.
func Jobs(ctx context.Context, a *cli.App, url string, o Options) (JobStore, error) {
	kind, path, err := ParseStore(url)
	if err != nil {
		return nil, err
	}
	if kind == StoreMemory && !o.Memory {
		return nil, cli.Usagef("--store %s: this store is empty and ends with this command; only a worker can use it. Write sqlite:PATH or postgres://…", url)
	}
	if kind == StoreMemory {
		return memory.Open().Jobs(), nil
	}
	if kind == storeSQLite && o.DryRun && o.Create && Missing(path) {
		return memory.Open().Jobs(), nil
	}
	if kind == storeSQLite {
		db, err := SQLite(ctx, path, o.Create && !o.DryRun)
		if err != nil {
			return nil, err
		}
		if err := migrated(ctx, db, false); err != nil {
			return nil, err
		}
		return db.Jobs(), nil
	}
	db, err := postgres.Open(ctx, path, postgres.Options{Logger: a.Logger(a.Stderr, false)})
	if err != nil {
		return nil, err
	}
	if err := migrated(ctx, db, o.Migrate && !o.DryRun); err != nil {
		return nil, err
	}
	return db.Jobs(), nil
}

func Missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func SQLite(ctx context.Context, path string, create bool) (*sqlite.DB, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Create: create})
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, cli.Fail(cli.ExitNotFound, fmt.Errorf("store sqlite:%s does not exist; enqueue, jobs import, worker, demo and migrate up make one", path))
	}
	return db, err
}

// migrated makes sure that a database has all its tables. It closes a database that has not.
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

// WithJobs runs f on a store and closes it.
func WithJobs(ctx context.Context, a *cli.App, url string, o Options, f func(JobStore) error) error {
	store, err := Jobs(ctx, a, url, o)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}
