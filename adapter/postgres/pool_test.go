package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
)

func TestJ9ADBOnTheCallersPoolLeavesItOpen(t *testing.T) {
	ctx := t.Context()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	connections := make(chan struct{}, 100)
	config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		connections <- struct{}{}
		return nil
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db, err := postgres.New(ctx, pool, postgres.Options{Schema: fmt.Sprintf("pool %d", os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	receipts, err := db.Jobs().Enqueue(ctx, []job.Insert{insert()})
	if err != nil || receipts[0].Durability != job.Fsynced {
		t.Fatalf("%+v, %v", receipts, err)
	}
	before := len(connections)
	listening, stop := context.WithCancel(ctx)
	signals, err := db.Jobs().Notify(listening)
	if err != nil {
		t.Fatal(err)
	}
	if len(connections) != before+1 {
		t.Error("the connection for notifications was made without the pool's BeforeConnect")
	}
	stop()
	for range signals {
	}
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	keys, req := db.Idempotency(), idempotency.BeginRequest{ID: idempotency.ID{Key: "k"}, Owner: "o", Lease: time.Minute}
	for name, err := range map[string]error{
		"begin":        second(keys.Begin(ctx, req)),
		"renew":        keys.Renew(ctx, idempotency.Claim{ID: req.ID}, time.Minute),
		"list keys":    second(keys.List(ctx, idempotency.Filter{}, idempotency.ID{}, 1)),
		"enqueue":      second(db.Jobs().Enqueue(ctx, []job.Insert{insert()})),
		"enqueue many": second(db.Jobs().Enqueue(ctx, inserts(200))),
		"claim":        second(db.Jobs().Claim(ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "q", Free: 1}}, Lease: time.Minute})),
		"list":         second(db.Jobs().List(ctx, job.Filter{}, "", 1)),
		"change":       second(db.Jobs().Change(ctx, job.ActionRetry, job.Filter{}, 1)),
	} {
		if !errors.Is(err, job.ErrClosed) {
			t.Errorf("%s after Close: %v, want %v", name, err, job.ErrClosed)
		}
	}
	if err := pool.Ping(ctx); err != nil {
		t.Errorf("the caller's pool: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
