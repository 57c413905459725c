package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
)

// environment is a server on loopback, with its stores.
type environment struct {
	folder   string
	postgres *testpg.Server
	jobs     *postgres.DB
	lite     *sqlite.DB
	log      *audit.Log
	server   string // PostgreSQL's version and what makes it durable
	url      string // of the server
	secret   string // of the token that requests carry
	stop     func() error
}

func newEnvironment(ctx context.Context) (env *environment, err error) {
	env = &environment{}
	defer func() {
		if err != nil {
			err = errors.Join(err, env.close())
		}
	}()
	if env.folder, err = os.MkdirTemp("", "benchserver"); err != nil {
		return nil, err
	}
	if env.postgres, err = testpg.Open(); err != nil {
		return nil, err
	}
	if env.jobs, err = postgres.Open(ctx, env.postgres.URL(), postgres.Options{}); err != nil {
		return nil, err
	}
	if _, err = env.jobs.Migrate(ctx, migrate.Up, false); err != nil {
		return nil, err
	}
	if env.lite, err = sqlite.Open(ctx, filepath.Join(env.folder, "server.db"), sqlite.Options{Create: true}); err != nil {
		return nil, err
	}
	if env.log, err = audit.Open(ctx, env.lite.Audit(), audit.Options{}); err != nil {
		return nil, err
	}
	token, secret := server.NewToken(policystore.Token{Name: "bench", Scopes: []policystore.Scope{policystore.ScopeAdmin}})
	if err = env.lite.Policies().AddToken(ctx, token); err != nil {
		return nil, err
	}
	env.secret, env.server = secret, "PostgreSQL with fsync and synchronous_commit for jobs and idempotency records, SQLite for policies"
	return env, env.serve(ctx)
}

// serve starts the server.
func (env *environment) serve(ctx context.Context) error {
	s, err := server.New(ctx, server.Options{
		Stores: server.Stores{Jobs: env.jobs.Jobs(), Records: env.jobs.Idempotency(), Audit: env.lite.Audit(), Policies: env.lite.Policies()},
		Log:    env.log, Logger: slog.New(slog.DiscardHandler),
		Limits: server.Limits{Rate: 1e6, Burst: 1e6, Followers: 20_000},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	env.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, listener) }()
	env.stop = func() error {
		cancel()
		return <-ended
	}
	return nil
}

func (env *environment) close() error {
	var errs []error
	if env.stop != nil {
		errs = append(errs, env.stop())
	}
	if env.log != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		errs = append(errs, env.log.Close(ctx))
	}
	if env.lite != nil {
		errs = append(errs, env.lite.Close())
	}
	if env.jobs != nil {
		errs = append(errs, env.jobs.Close())
	}
	if env.postgres != nil {
		errs = append(errs, env.postgres.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(env.folder))...)
}

// memory is the largest size that this process has had in memory, in MiB.
func memory() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := parseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return kilobytes / 1024, err
		}
	}
	return 0, errors.New("the size of the process is unknown")
}
