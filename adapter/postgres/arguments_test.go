package postgres_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/job"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`postgres: Open: the context is nil`: func() error { _, err := postgres.Open(none, "postgres://127.0.0.1", postgres.Options{}); return err },
		`postgres: New: the context is nil`:  func() error { _, err := postgres.New(none, nil, postgres.Options{}); return err },
		`postgres: New: the pool is nil`:     func() error { _, err := postgres.New(t.Context(), nil, postgres.Options{}); return err },
	})
	var jobs postgres.Jobs
	var records postgres.Idempotency
	ctx := t.Context()
	for _, call := range []func() error{
		func() error { _, err := jobs.EnqueueTx(ctx, nil); return err },
		func() error { _, err := jobs.SQL().EnqueueTx(ctx, nil); return err },
		func() error { return jobs.CompleteTx(ctx, nil, job.Lease{}) },
		func() error { return jobs.SQL().CompleteTx(ctx, nil, job.Lease{}) },
		func() error { _, err := records.BeginTx(ctx, nil, idempotency.BeginRequest{}); return err },
		func() error { _, err := records.SQL().BeginTx(ctx, nil, idempotency.BeginRequest{}); return err },
		func() error { return records.SettleTx(ctx, nil, idempotency.Claim{}, idempotency.Settlement{}) },
		func() error { return records.SQL().SettleTx(ctx, nil, idempotency.Claim{}, idempotency.Settlement{}) },
	} {
		testargument.Refused(t, map[string]func() error{"postgres: the transaction is nil": call})
	}
}
