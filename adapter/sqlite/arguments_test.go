package sqlite_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/job"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`sqlite: Open: the context is nil`:    func() error { _, err := sqlite.Open(none, "file.db", sqlite.Options{}); return err },
		`sqlite: BeginTx: the context is nil`: func() error { _, err := new(sqlite.DB).BeginTx(none); return err },
	})
	var jobs sqlite.Jobs
	var records sqlite.Idempotency
	ctx := t.Context()
	for _, call := range []func() error{
		func() error { _, err := jobs.EnqueueTx(ctx, nil); return err },
		func() error { return jobs.CompleteTx(ctx, nil, job.Lease{}) },
		func() error { _, err := records.BeginTx(ctx, nil, idempotency.BeginRequest{}); return err },
		func() error { return records.SettleTx(ctx, nil, idempotency.Claim{}, idempotency.Settlement{}) },
	} {
		testargument.Refused(t, map[string]func() error{"sqlite: the transaction is nil": call})
	}
}
