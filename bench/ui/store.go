package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/job"
)

// jobStore is what both stores have in common.
type jobStore interface {
	job.Store
	job.Admin
}

// newSQLite makes a store of n jobs, a tenth of them dead, and a server on it.
func newSQLite(ctx context.Context, n int) (s *site, err error) {
	s = &site{name: fmt.Sprintf("SQLite, %d jobs", n)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	folder, err := os.MkdirTemp("", "benchui")
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(folder) })
	path := filepath.Join(folder, "ui.db")
	db, err := sqlite.Open(ctx, path, sqlite.Options{Create: true})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, db.Close)
	s.jobs = db.Jobs()
	if err := fill(ctx, s.jobs, n); err != nil {
		return nil, err
	}
	if err := indexed(ctx, db.Jobs()); err != nil {
		return nil, err
	}
	return s, s.start(ctx, path)
}

// newPostgres makes a store of n jobs and a server on it.
func newPostgres(ctx context.Context, n int) (s *site, err error) {
	s = &site{name: fmt.Sprintf("PostgreSQL, %d jobs", n)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	server, err := testpg.Open()
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, server.Close)
	db, err := postgres.Open(ctx, server.URL(), postgres.Options{})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, db.Close)
	if _, err := db.Migrate(ctx, migrate.Up, false); err != nil {
		return nil, err
	}
	s.jobs = db.Jobs()
	if err := fill(ctx, s.jobs, min(n, 1_000_000)); err != nil {
		return nil, err
	}
	if err := fillCompleted(ctx, server.URL(), n-1_000_000); err != nil {
		return nil, err
	}
	if err := indexed(ctx, db.Jobs()); err != nil {
		return nil, err
	}
	return s, s.start(ctx, server.URL())
}

// indexed are the fields that are searched.
func indexed(ctx context.Context, store job.Indexer) error {
	return errors.Join(store.SetIndex(ctx, "meta.tenant", true), store.SetIndex(ctx, "payload.order.id", true))
}

// fill stores n jobs through the library: a tenth dies of eight causes, half completes, the rest waits.
func fill(ctx context.Context, store jobStore, n int) error {
	client := job.NewClient(store)
	queues := []string{"mail", "documents", "billing", "search"}
	const batch = 1000
	for at := 0; at < n; at += batch {
		requests := make([]job.Request, min(batch, n-at))
		for i := range requests {
			k := at + i
			requests[i] = job.Request{
				Type: []string{"email:send", "invoice:print"}[k%2], Queue: queues[k%len(queues)], Meta: map[string]string{"tenant": fmt.Sprintf("t%d", k%500)},
				Payload: fmt.Appendf(nil, `{"order":{"id":%d},"to":"person%d@example.com"}`, k, k),
			}
		}
		if _, err := client.EnqueueMany(ctx, requests); err != nil {
			return err
		}
	}
	for settled := 0; settled < n*6/10; {
		var slots []job.Slots
		for _, q := range queues {
			slots = append(slots, job.Slots{Queue: q, Free: batch / len(queues)})
		}
		claimed, err := store.Claim(ctx, job.Claim{Worker: "fill", Queues: slots, Lease: time.Minute})
		if err != nil || len(claimed) == 0 {
			return errors.Join(err, errors.New("fill: nothing to claim"))
		}
		list := make([]job.Settlement, len(claimed))
		for i, r := range claimed {
			list[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
			if i%6 == 0 {
				list[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindDead, Reason: "permanent", Error: fmt.Sprintf("%s: mailbox %d is unavailable", strings.Repeat("x", i%8+1), i)}
			}
		}
		for _, err := range job.Settle(ctx, store, list) {
			if err != nil {
				return err
			}
		}
		settled += len(claimed)
	}
	return nil
}

// fillCompleted stores completed jobs in bulk, as a store has after weeks.
func fillCompleted(ctx context.Context, url string, n int) error {
	if n <= 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // only after errors does it matter
	id := `('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO tenet.job (id, timeout, max_attempts, type, queue, priority, payload, meta)
SELECT %s, 0, 0, 'report:build', 'archive', 0, convert_to('{"order":{"id":' || n || '}}', 'UTF8'), NULL FROM generate_series(1, %d) n`, id, n),
		fmt.Sprintf(`INSERT INTO tenet.done (id, run_at, fence, attempts, refusals, priority, queue, finished_at, state)
SELECT %s, now(), 1, 0, 0, 0, 'archive', now(), 'completed' FROM generate_series(1, %d) n`, id, n),
		`INSERT INTO tenet.total (queue, completed) SELECT queue, count(*) FROM tenet.done WHERE queue = 'archive' GROUP BY queue`,
		`VACUUM ANALYZE tenet.job`, `VACUUM ANALYZE tenet.done`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}
