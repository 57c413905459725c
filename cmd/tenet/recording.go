package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/policy"
)

// auditFlag adds --audit to a command that records what it decides.
func auditFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("audit", "", "record every decision here before it takes effect: file:PATH, sqlite:PATH, postgres://… or nats://… (also TENET_AUDIT)")
}

// recordStore keeps idempotency records, and what happened to them where it can.
type recordStore struct {
	idempotency.Store
	idempotency.Admin
	audit audit.Sink // nil where it keeps none
	close func() error
}

// openRecords opens a store of idempotency records. create says whether a missing SQLite file may be made.
func (a *app) openRecords(ctx context.Context, flag, url string, create bool) (*recordStore, error) {
	if err := address.Check(url); err != nil {
		return nil, usage("--%s: %w", flag, err)
	}
	kind, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, usage("--%s is not a URL; write sqlite:PATH, postgres://… or nats://…", flag)
	}
	switch kind {
	case "memory":
		return nil, usage("--%s %s: what is kept in memory is forgotten when this program ends; write sqlite:PATH, postgres://… or nats://…", flag, url)
	case "sqlite":
		path := strings.TrimPrefix(rest, "//")
		if path == "" {
			return nil, usage("--%s %s: the file is missing; write sqlite:records.db", flag, url)
		}
		db, err := sqlite.Open(ctx, path, sqlite.Options{Create: create})
		if err != nil {
			if !create && missing(path) {
				return nil, fail(exitNotFound, fmt.Errorf("store %s does not exist", url))
			}
			return nil, err
		}
		if err := migrated(ctx, db, create); err != nil {
			return nil, err
		}
		return &recordStore{Store: db.Idempotency(), Admin: db.Idempotency(), audit: db.Audit(), close: db.Close}, nil
	case "postgres", "postgresql":
		db, err := postgres.Open(ctx, url, postgres.Options{Logger: a.logger(a.stderr, false)})
		if err != nil {
			return nil, err
		}
		if err := migrated(ctx, db, false); err != nil {
			return nil, err
		}
		return &recordStore{Store: db.Idempotency(), Admin: db.Idempotency(), audit: db.Audit(), close: db.Close}, nil
	case "nats", "tls":
		db, err := natsstore.Open(ctx, url, natsstore.Options{})
		if err != nil {
			return nil, err
		}
		return &recordStore{Store: db.Idempotency(), Admin: db.Idempotency(), audit: db.Audit(), close: db.Close}, nil
	}
	more := ""
	if flag == "audit" {
		more = "file:PATH, "
	}
	return nil, usage("--%s %s:…: unknown kind of store; write %ssqlite:PATH, postgres://… or nats://…", flag, kind, more)
}

// closeTime bounds how long a command waits at its end for its audit log.
const closeTime = 30 * time.Second

// openLog starts an audit log that fails closed. close ends it and its sink; what could not be stored is an error.
func (a *app) openLog(ctx context.Context, url string) (log *audit.Log, closeLog func() error, err error) {
	sink, err := a.openSink(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	return openLogOn(ctx, sink, sink.Close)
}

func openLogOn(ctx context.Context, sink audit.Sink, closeSink func() error) (*audit.Log, func() error, error) {
	log, err := audit.Open(ctx, sink, audit.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, closeSink())
	}
	return log, func() error {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		return errors.Join(log.Close(patience), closeSink())
	}, nil
}

// policyChanges puts changes of a document on record.
type policyChanges struct {
	mu   sync.Mutex
	ctx  context.Context // of the program
	log  *audit.Log      // nil until follow
	last *policy.Set
	warn *slog.Logger
}

// follow begins with the provider's document as it is now.
func (c *policyChanges) follow(ctx context.Context, log *audit.Log, provider policy.Provider, warn *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := provider.(policy.SetProvider); ok {
		c.ctx, c.log, c.last, c.warn = ctx, log, p.Set(), warn
	}
}

// tell records what differs between the last document and the next.
func (c *policyChanges) tell(next *policy.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return
	}
	for _, key := range next.Keys() {
		to, err := next.Policy(c.ctx, key)
		from, fromErr := c.last.Policy(c.ctx, key)
		if err != nil || fromErr == nil && from.Meta.Revision == to.Meta.Revision {
			continue
		}
		if fromErr != nil {
			from = nil
		}
		if err := c.log.PolicyChanged(c.ctx, from, to, actor(), "the document was changed"); err != nil {
			c.warn.Warn("a change of policy could not be put on record", "key", key.String(), "error", err)
		}
	}
	c.last = next
}

// actor names whoever runs this program.
func actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

// storedSink is a sink in a database of its own connection.
type storedSink struct {
	audit.Sink
	close func() error
}

// Close ends the sink and its database.
func (s storedSink) Close() error { return errors.Join(s.Sink.Close(), s.close()) }

// openSink opens what an audit log is written to. A missing file is made.
func (a *app) openSink(ctx context.Context, url string) (audit.Sink, error) {
	kind, rest, ok := strings.Cut(url, ":")
	if !ok || rest == "" {
		return nil, usage("--audit names no log; write file:PATH, sqlite:PATH, postgres://… or nats://…")
	}
	if kind == "file" {
		path := strings.TrimPrefix(rest, "//")
		sink, err := audit.OpenFile(path, audit.FileOptions{})
		if err != nil {
			return nil, fmt.Errorf("--audit %s: %w", url, notMade(path, err))
		}
		return sink, nil
	}
	if kind == "memory" {
		return nil, usage("--audit %s: an audit log in memory proves nothing; write file:PATH, sqlite:PATH, postgres://… or nats://…", url)
	}
	s, err := a.openRecords(ctx, "audit", url, true)
	if err != nil {
		return nil, err
	}
	return storedSink{s.audit, s.close}, nil
}
