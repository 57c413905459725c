package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/pipeline"
)

// TestL4ATaskThatEndsItsGoroutineLeavesItsOutcomeUnknown: under a guard it does not run again, not even when the claim lapses.
func TestL4ATaskThatEndsItsGoroutineLeavesItsOutcomeUnknown(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		calls := 0
		task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error {
			calls++
			runtime.Goexit()
			return nil
		})
		p := consumerPolicy(1, 1)
		p.Loop.Streaming, p.Loop.Limit = true, 3
		var l ledger
		var letters pipeline.MemorySink
		_, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), task, p, l.option(), quiet,
			pipeline.WithGuard(guardOver(t, db.Idempotency())), pipeline.WithDeadLetter(&letters)).Run(bg)
		if err != nil || calls != 1 {
			t.Error(err, calls)
		}
		if diff := cmp.Diff([]pipeline.Outcome{pipeline.Failed, pipeline.Redelivered, pipeline.Exception}, l.of("a")); diff != "" {
			t.Fatal(diff)
		}
		if last := l.ends[2].Err; !errors.Is(last, idempotency.ErrUnknown) {
			t.Error(last)
		}
	})
}

// lostStore finds every claim taken over when it is settled.
type lostStore struct{ idempotency.Store }

func (lostStore) Settle(context.Context, idempotency.Claim, idempotency.Settlement) error {
	return idempotency.ErrFenced
}

func TestL4AnOutcomeThatAGuardCannotRecordStands(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		source := newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
		var log bytes.Buffer
		summary, err := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1),
			pipeline.WithGuard(guardOver(t, lostStore{db.Idempotency()})), pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
		if err != nil || summary.Success != 1 || len(source.acked) != 1 {
			t.Error(summary, err, source.acked)
		}
		if text := log.String(); strings.Count(text, "could not record") != 1 || !strings.Contains(text, "transaction=a") {
			t.Errorf("logged: %s", text)
		}
	})
}

// slowStore answers no begin before its context ends.
type slowStore struct{ brokenStore }

func (slowStore) Begin(ctx context.Context, _ idempotency.BeginRequest) (idempotency.Begun, error) {
	<-ctx.Done()
	return idempotency.Begun{}, ctx.Err()
}

func TestL9ATransactionThatWaitsForItsGuardIsGivenBackAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := newScripted(answer{ids: []string{"a"}}, answer{takes: time.Hour})
		s := &script{handlers: "se"}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		summary, err := pipeline.NewConsumer(source, s.task(), consumerPolicy(1, 1), pipeline.WithGuard(guardOver(t, slowStore{})), quiet).Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || summary.Redelivered != 1 || summary.Elapsed != time.Second || len(s.log) > 0 {
			t.Error(summary, err, s.log)
		}
		if diff := cmp.Diff([]nack{{ID: "a"}}, source.nacked); diff != "" {
			t.Error(diff)
		}
	})
}
