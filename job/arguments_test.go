package job_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/job"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	store := memory.Open().Jobs()
	handler := func(context.Context, job.Job[[]byte]) error { return nil }
	broken := func(job.RawHandler) job.RawHandler { return nil }
	testargument.Refused(t, map[string]func() error{
		`job: NewClient: the store is nil`:                   func() error { job.NewClient(nil); return nil },
		`job: NewClient: an option is nil`:                   func() error { job.NewClient(store, nil); return nil },
		`job: enqueue: the context is nil`:                   func() error { _, err := job.NewClient(store).Enqueue(none, job.Request{Type: "t"}); return err },
		`job: NewWorker: the store is nil`:                   func() error { job.NewWorker(nil); return nil },
		`job: NewWorker: an option is nil`:                   func() error { job.NewWorker(store, nil); return nil },
		`job: Run: the context is nil`:                       func() error { return job.NewWorker(store).Run(none) },
		`job: WithProvider: the provider is nil`:             func() error { job.WithProvider(nil); return nil },
		`job: WithMiddleware: a middleware is nil`:           func() error { job.WithMiddleware(nil); return nil },
		`job: the handler that a middleware returned is nil`: func() error { job.NewWorker(store, job.WithMiddleware(broken)).HandleRaw("t", handler); return nil },
		`job: Handle: the worker is nil`: func() error {
			job.Handle(nil, "t", func(context.Context, job.Job[string]) error { return nil })
			return nil
		},
		`job: type "raw": the handler is nil`: func() error { job.NewWorker(store).HandleRaw("raw", nil); return nil },
		`job: type "t": the handler is nil`:   func() error { job.Handle[string](job.NewWorker(store), "t", nil); return nil },
		`job: Idempotent: the guard is nil`:   func() error { job.Idempotent(nil, nil); return nil },
		`job: Define: the name is empty`:      func() error { job.Define[string](""); return nil },
		`job: Define: an option is nil`:       func() error { job.Define[string]("t", nil); return nil },
		`job: t: an option is nil`:            func() error { job.Define[string]("t").Request("", nil); return nil },
		`job: t: the client is nil`:           func() error { _, err := job.Define[string]("t").Enqueue(t.Context(), nil, ""); return err },
	})
}
