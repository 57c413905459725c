package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/testpg"
)

// environment is the PostgreSQL server and the folder for SQLite files of the measurements.
type environment struct {
	server   *testpg.Server
	admin    *pgx.Conn
	busy     func() time.Duration // processor time of the server, or nil
	folder   string
	made     int      // number of databases created
	built    string   // the program that measures River on SQLite
	versions []string // versions that it reported
}

func newEnvironment(ctx context.Context) (env *environment, err error) {
	env = &environment{}
	if env.folder, err = os.MkdirTemp("", "benchjobs"); err != nil {
		return nil, err
	}
	if env.server, err = testpg.Open(); err == nil {
		env.admin, err = pgx.Connect(ctx, env.server.URL())
	}
	if err == nil {
		env.busy, err = serverTime(ctx, env.admin)
	}
	if err != nil {
		return nil, errors.Join(err, env.close())
	}
	return env, nil
}

func (env *environment) close() error {
	var errs []error
	if env.admin != nil {
		errs = append(errs, env.admin.Close(context.Background()))
	}
	if env.server != nil {
		errs = append(errs, env.server.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(env.folder))...)
}

// database creates an empty database and returns its URL and a function that drops it.
func (env *environment) database(ctx context.Context) (address string, drop func() error, err error) {
	env.made++
	name := fmt.Sprintf("bench_%d_%d", os.Getpid(), env.made)
	if _, err := env.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u, err := url.Parse(env.server.URL())
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error {
		_, err := env.admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	}, nil
}

// tidy brings a database into a defined state: no dead rows, fresh statistics, no dirty pages.
func tidy(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// file returns the path of a new SQLite file in a new folder, and a function that removes it.
func (env *environment) file() (path string, remove func() error, err error) {
	folder, err := os.MkdirTemp(env.folder, "db")
	return filepath.Join(folder, "jobs.db"), func() error { return os.RemoveAll(folder) }, err
}

// build builds the program that measures River on SQLite, once.
func (env *environment) build(ctx context.Context) (string, error) {
	if env.built != "" {
		return env.built, nil
	}
	const module = "github.com/tenetdev/tenet/bench/jobs/riversqlite"
	where, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: run this inside bench: %w", module, err)
	}
	program := filepath.Join(env.folder, "riversqlite")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = strings.TrimSpace(string(where))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", module, err, out)
	}
	env.built = program
	return program, nil
}

// describe returns the server's version and its durability settings.
func (env *environment) describe(ctx context.Context) (string, error) {
	rows, err := env.admin.Query(ctx, `SELECT name || ' ' || current_setting(name) FROM pg_settings
WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'autovacuum') ORDER BY name <> 'server_version', name`)
	if err != nil {
		return "", err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(list, ", "), err
}

func (env *environment) learn(versions []string) {
	for _, v := range versions {
		if !slices.Contains(env.versions, v) {
			env.versions = append(env.versions, v)
		}
	}
}
