package open

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/address"
)

// JobTTL is how long the key of a job is kept after its effect: longer than operators take to requeue it.
const JobTTL = 30 * 24 * time.Hour

// RecordStore keeps idempotency records, and what happened to them where it can.
type RecordStore struct {
	idempotency.Store
	idempotency.Admin
	Audit audit.Sink // nil where it keeps none
	Close func() error
}

// Records opens a store of idempotency records. create says whether a missing SQLite file may be made.
func Records(ctx context.Context, a *cli.App, flag, url string, create bool) (*RecordStore, error) {
	if err := address.Check(url); err != nil {
		return nil, cli.Usagef("--%s: %w", flag, err)
	}
	kind, rest, ok := strings.Cut(url, ":")
	if !ok {
		return nil, cli.Usagef("--%s is not a URL; write sqlite:PATH, postgres://… or nats://…", flag)
	}
	switch kind {
	case "memory":
		return nil, cli.Usagef("--%s %s: what is kept in memory is forgotten when this program ends; write sqlite:PATH, postgres://… or nats://…", flag, url)
	case "sqlite":
		path := strings.TrimPrefix(rest, "//")
		if path == "" {
			return nil, cli.Usagef("--%s %s: the file is missing; write sqlite:records.db", flag, url)
		}
		db, err := sqlite.Open(ctx, path, sqlite.Options{Create: create})
		if err != nil {
			if !create && Missing(path) {
				return nil, cli.Fail(cli.ExitNotFound, fmt.Errorf("store %s does not exist", url))
			}
			return nil, err
		}
		if err := migrated(ctx, db, create); err != nil {
			return nil, err
		}
		return &RecordStore{Store: db.Idempotency(), Admin: db.Idempotency(), Audit: db.Audit(), Close: db.Close}, nil
	case "postgres", "postgresql":
		db, err := postgres.Open(ctx, url, postgres.Options{Logger: a.Logger(a.Stderr, false)})
		if err != nil {
			return nil, err
		}
		if err := migrated(ctx, db, false); err != nil {
			return nil, err
		}
		return &RecordStore{Store: db.Idempotency(), Admin: db.Idempotency(), Audit: db.Audit(), Close: db.Close}, nil
	case "nats", "tls":
		db, err := natsstore.Open(ctx, url, natsstore.Options{})
		if err != nil {
			return nil, err
		}
		return &RecordStore{Store: db.Idempotency(), Admin: db.Idempotency(), Audit: db.Audit(), Close: db.Close}, nil
	}
	more := ""
	if flag == "audit" {
		more = "file:PATH, "
	}
	return nil, cli.Usagef("--%s %s:…: unknown kind of store; write %ssqlite:PATH, postgres://… or nats://…", flag, kind, more)
}
