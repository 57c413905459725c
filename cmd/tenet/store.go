package main

import (
	"bufio"
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
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
)

// jobStore is what all stores of this program can do.
type jobStore interface {
	job.Store
	job.Admin
}

// migrator is a database with versions.
type migrator interface {
	Migrate(ctx context.Context, d migrate.Direction, dryRun bool) ([]migrate.Step, error)
	MigrationStatus(ctx context.Context) ([]migrate.Status, error)
	Close() error
}

// opening says what may be done about a store that is missing.
type opening struct {
	create  bool // a missing SQLite file, and its tables
	migrate bool // missing or old tables on PostgreSQL
	memory  bool // a store that ends with this process is of use to the command
	dryRun  bool // nothing may be made; a missing SQLite file is an empty store
}

// storeFlag adds --store to a command.
func storeFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("store", "", "job store: sqlite:PATH or postgres://… (also TENET_STORE)")
}

// The kinds of stores.
const (
	storeMemory   = "memory"
	storeSQLite   = "sqlite"
	storePostgres = "postgres"
)

// parseStore takes a store's URL apart. PATH is what SQLite opens, the whole URL elsewhere.
func parseStore(url string) (kind, path string, err error) {
	if err := address.Check(url); err != nil {
		return "", "", usage("--store: %w", err)
	}
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case url == "":
		return "", "", usage("no store given; write --store sqlite:jobs.db or set TENET_STORE")
	case !ok:
		return "", "", usage("--store is not a URL; write sqlite:PATH, postgres://… or memory:")
	}
	switch scheme {
	case "memory":
		return storeMemory, url, nil
	case "sqlite":
		if path = strings.TrimPrefix(rest, "//"); path == "" {
			return "", "", usage("--store %s: the file is missing; write sqlite:jobs.db", url)
		}
		return storeSQLite, path, nil
	case "postgres", "postgresql":
		return storePostgres, url, nil
	case "redis", "rediss":
		return "", "", usage("--store %s:…: Redis is not supported by this build; use sqlite:PATH or postgres://…", scheme)
	}
	return "", "", usage("--store %s:…: unknown kind of store; write sqlite:PATH, postgres://… or memory:", scheme)
}

// openStore opens the store of a command.
func (a *app) openStore(ctx context.Context, url string, o opening) (jobStore, error) {
	kind, path, err := parseStore(url)
	if err != nil {
		return nil, err
	}
	if kind == storeMemory && !o.memory {
		return nil, usage("--store %s: this store is empty and ends with this command; only a worker can use it. Write sqlite:PATH or postgres://…", url)
	}
	if kind == storeMemory {
		return memory.Open().Jobs(), nil
	}
	if kind == storeSQLite && o.dryRun && o.create && missing(path) {
		return memory.Open().Jobs(), nil
	}
	if kind == storeSQLite {
		db, err := openSQLite(ctx, path, o.create && !o.dryRun)
		if err != nil {
			return nil, err
		}
		if err := migrated(ctx, db, false); err != nil {
			return nil, err
		}
		return db.Jobs(), nil
	}
	db, err := postgres.Open(ctx, path, postgres.Options{Logger: a.logger(a.stderr, false)})
	if err != nil {
		return nil, err
	}
	if err := migrated(ctx, db, o.migrate && !o.dryRun); err != nil {
		return nil, err
	}
	return db.Jobs(), nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func openSQLite(ctx context.Context, path string, create bool) (*sqlite.DB, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Create: create})
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, fail(exitNotFound, fmt.Errorf("store sqlite:%s does not exist; enqueue, jobs import, worker, demo and migrate up make one", path))
	}
	return db, err
}

// migrated makes sure that a database has all its tables. It closes a database that has not.
func migrated(ctx context.Context, db migrator, up bool) error {
	if up {
		if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
			return errors.Join(err, db.Close())
		}
		return nil
	}
	list, err := db.MigrationStatus(ctx)
	for _, s := range list {
		if !s.Applied {
			err = fail(exitNotFound, fmt.Errorf("the store's tables are missing or not up to date (version %03d_%s): run `tenet migrate up --store URL`, or add --migrate to enqueue, jobs import or worker", s.Version, s.Name))
			break
		}
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// withStore runs f on a store and closes it.
func (a *app) withStore(ctx context.Context, url string, o opening, f func(jobStore) error) error {
	store, err := a.openStore(ctx, url, o)
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// confirm asks before something that cannot be undone or that is easily meant for less. Without a terminal --yes must have
// said it.
func (a *app) confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := textf(format, args...)
	if !isTerminal(a.stdin) {
		return usage("%s There is no terminal to ask on: add --yes, or --dry-run to see what it would do", question)
	}
	fprintf(a.stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // left behind when ctx ends first
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if word := strings.ToLower(strings.TrimSpace(line)); word == "y" || word == "yes" {
			return nil
		}
		return fail(exitNotAllowed, errors.New("not confirmed; nothing was changed"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
