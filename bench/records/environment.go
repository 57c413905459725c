package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// environment is the environment of the measurements.
type environment struct {
	folder   string
	postgres *testpg.Server
	pool     *pgxpool.Pool
	db       *postgres.DB
	server   string // the server's version and durability settings
	log      string // the log to verify and replay
	events   int
	size     int64
	batches  []int // sizes in bytes of the audit log's writes in the last round
}

// written is the path of the file that the audit log wrote in the last round.
func (env *environment) written() string { return filepath.Join(env.folder, "written.jsonl") }

func newEnvironment(ctx context.Context, events int) (env *environment, err error) {
	env = &environment{events: events}
	defer func() {
		if err != nil {
			err = errors.Join(err, env.close())
		}
	}()
	if env.folder, err = os.MkdirTemp("", "benchrecords"); err != nil {
		return nil, err
	}
	if env.postgres, err = testpg.Open(); err != nil {
		return nil, err
	}
	if env.pool, err = pgxpool.New(ctx, env.postgres.URL()); err != nil {
		return nil, err
	}
	if _, err = env.pool.Exec(ctx, `CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, name text NOT NULL, value text NOT NULL)`); err != nil {
		return nil, err
	}
	if env.db, err = postgres.Open(ctx, env.postgres.URL(), postgres.Options{}); err != nil {
		return nil, err
	}
	if _, err = env.db.Migrate(ctx, migrate.Up, false); err != nil {
		return nil, err
	}
	err = env.pool.QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync') ||
		', synchronous_commit ' || current_setting('synchronous_commit')`).Scan(&env.server)
	if err != nil {
		return nil, err
	}
	return env, env.record(ctx)
}

func (env *environment) close() error {
	var errs []error
	if env.db != nil {
		errs = append(errs, env.db.Close())
	}
	if env.pool != nil {
		env.pool.Close()
	}
	if env.postgres != nil {
		errs = append(errs, env.postgres.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(env.folder))...)
}

var errWork = errors.New("the other side failed")

// executorOf makes an executor whose calls have three attempts without waits and are reported to an observer.
func executorOf(o observe.Observer) *retry.Executor {
	p, err := policy.Compile(policy.Policy{Retry: policy.Retry{MaxAttempts: 3}}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		panic(err)
	}
	return retry.NewExecutor(retry.ExecutorOptions{
		Provider: policy.NewSet(policy.SetConfig{Calls: p}), Observer: o,
		Wait: func(context.Context, time.Duration) error { return nil },
	})
}

// record writes the log to verify, replay and compare.
func (env *environment) record(ctx context.Context) error {
	env.log = filepath.Join(env.folder, "long.jsonl")
	if err := writeLog(ctx, env.log, env.events); err != nil {
		return err
	}
	info, err := os.Stat(env.log)
	if err == nil {
		env.size = info.Size()
	}
	return err
}

// writeLog records calls of an executor, with as many attempts in all as there are to be events. Half of the attempts fail, and
// the keys take turns.
func writeLog(ctx context.Context, path string, events int) error {
	sink, err := audit.OpenFile(path, audit.FileOptions{MaxSize: -1, Sync: -1})
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }()
	log, err := audit.Open(ctx, sink, audit.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	keys := make([]policy.Key, 20)
	for i := range keys {
		keys[i] = policy.ParseKey(fmt.Sprintf("service-%d.Get", i))
	}
	e, random, attempts := executorOf(log), rand.New(rand.NewPCG(1, 1)), 0
	for i := 0; attempts < events; i++ {
		_ = e.Do(ctx, keys[i%len(keys)], func(context.Context) error {
			attempts++
			if random.IntN(2) == 0 {
				return errWork
			}
			return nil
		})
	}
	return log.Close(ctx)
}

var key = policy.ParseKey("user-service.GetUser")

func fail(context.Context) error { return errWork }
