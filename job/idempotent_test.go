package job_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/payload"
	"github.com/tenetdev/tenet/policy"
)

// guarded makes a guard over a store in memory, with short leases.
func guarded(t *testing.T) (*idempotency.Guard, idempotency.Store) {
	t.Helper()
	store := memory.Open().Idempotency()
	guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{Lease: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return guard, store
}

func TestI9AnEffectThatHappenedIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := guarded(t)
		var effects atomic.Int64
		order := func(j job.Job[[]byte]) string { return j.Meta["order"] }
		b := work(t, func(_ context.Context, j job.Job[[]byte]) error {
			effects.Add(1)
			j.SetOutput([]byte("receipt"))
			return nil
		}, job.WithMiddleware(job.Idempotent(guard, order)))
		first := b.enqueue(job.Request{Meta: map[string]string{"order": "o1"}})
		time.Sleep(time.Minute)
		second := b.enqueue(job.Request{Meta: map[string]string{"order": "o1"}})
		time.Sleep(time.Minute)
		for _, id := range []string{first, second} {
			if r, _ := b.get(id); r.State != job.Completed || string(r.Output) != "receipt" {
				t.Errorf("%s with output %q", r.State, r.Output)
			}
		}
		if effects.Load() != 1 {
			t.Errorf("%d effects", effects.Load())
		}
		b.stop()
	})
}

func TestI9InFlightIsRequeuedWithoutCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := guarded(t)
		b := work(t, func(context.Context, job.Job[[]byte]) error { return nil },
			job.WithMiddleware(job.Idempotent(guard, func(job.Job[[]byte]) string { return "o1" })))
		id := b.enqueue(job.Request{RunAt: time.Now().Add(time.Second)})
		r, _ := b.get(id)
		twin, err := guard.Begin(t.Context(), idempotency.Request{
			Key: "o1", Operation: "t", Fingerprint: fmt.Sprintf("%x", sha256.Sum256(r.Payload)),
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := twin.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r, history := b.get(id)
		if r.State != job.Completed || r.Failures != 0 || len(history) == 0 {
			t.Fatalf("%s after %d failures", r.State, r.Failures)
		}
		if diff := cmp.Diff("1 snoozed idempotency_in_flight x1", story(history)[0]); diff != "" {
			t.Error(diff)
		}
		b.stop()
	})
}

func TestI9UnknownOutcomeIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, store := guarded(t)
		b := work(t, func(context.Context, job.Job[[]byte]) error { t.Error("the effect ran"); return nil },
			job.WithMiddleware(job.Idempotent(guard, nil)))
		later := time.Now().Add(time.Minute)
		id := b.enqueue(job.Request{RunAt: later})
		_, err := store.Begin(t.Context(), idempotency.BeginRequest{ // a worker that was killed
			ID: idempotency.ID{Operation: "t", Key: id}, Owner: "gone", Lease: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		r, history := b.get(id)
		if r.State != job.Dead || r.Failures != 1 || history[0].Reason != policy.ReasonOutcomeUnknown {
			t.Errorf("%s: %v", r.State, story(history))
		}
		b.stop()
	})
}

func TestI6AnOutageRequeuesTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{Store: memory.Open().Idempotency()}
		store.down.Store(true)
		guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		handler, effects := failing(nil)
		b := work(t, handler, job.WithMiddleware(job.Idempotent(guard, nil)))
		id := b.enqueue(job.Request{})
		time.Sleep(20 * time.Second)
		if effects.Load() != 0 {
			t.Errorf("%d effects without a record", effects.Load())
		}
		store.down.Store(false)
		time.Sleep(time.Minute)
		if r, _ := b.get(id); r.State != job.Completed || r.Failures != 0 || effects.Load() != 1 {
			t.Errorf("%s after %d failures, %d effects", r.State, r.Failures, effects.Load())
		}
		b.stop()
	})
}

func TestI9AnAttemptThatEndedBeforeItsClaimIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := guarded(t)
		handler, effects := failing(nil)
		runs := 0
		slow := func(next job.RawHandler) job.RawHandler {
			return func(ctx context.Context, j job.Job[[]byte]) error {
				if runs++; runs == 1 {
					<-ctx.Done()
				}
				return next(ctx, j)
			}
		}
		b := work(t, handler, job.WithRetryPolicy(steady(3)), job.WithMiddleware(slow, job.Idempotent(guard, nil)))
		id := b.enqueue(job.Request{Timeout: time.Second})
		time.Sleep(time.Minute)
		if r, history := b.get(id); r.State != job.Completed || effects.Load() != 1 {
			t.Errorf("%s with %d effects: %v", r.State, effects.Load(), story(history))
		}
		b.stop()
	})
}

// outage is a store that is unreachable while it is down.
type outage struct {
	idempotency.Store
	down atomic.Bool
}

func (o *outage) Begin(ctx context.Context, r idempotency.BeginRequest) (idempotency.Begun, error) {
	if o.down.Load() {
		return idempotency.Begun{}, errDown
	}
	return o.Store.Begin(ctx, r)
}

func TestI3FailuresDecideAboutTheNextRun(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		state idempotency.State
	}{
		"retryable":     {errDown, idempotency.Released},
		"unrecoverable": {job.Unrecoverable(errDown), idempotency.Failed},
		"snoozed":       {job.Snooze(time.Hour), idempotency.Released},
		"cancelled":     {job.Cancel("no"), idempotency.Released},
		"done":          {nil, idempotency.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				guard, store := guarded(t)
				handler, _ := failing(test.err)
				b := work(t, handler, job.WithRetryPolicy(nil), job.WithMiddleware(job.Idempotent(guard, nil)))
				id := b.enqueue(job.Request{})
				time.Sleep(time.Minute)
				r, err := store.Get(t.Context(), idempotency.ID{Operation: "t", Key: id})
				if err != nil || r.State != test.state {
					t.Errorf("%s: %v", r.State, err)
				}
				b.stop()
			})
		})
	}
}

func TestI4APanickingHandlerRunsAgainOnlyIfReplaySafe(t *testing.T) {
	for _, safe := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.Open().Idempotency()
			guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{ReplaySafe: safe, Lease: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			var runs atomic.Int64
			b := work(t, func(context.Context, job.Job[[]byte]) error {
				if runs.Add(1) == 1 {
					panic(errors.New("oops"))
				}
				return nil
			}, job.WithRetryPolicy(steady(3)), job.WithMiddleware(job.Idempotent(guard, nil)))
			id := b.enqueue(job.Request{})
			time.Sleep(time.Minute)
			r, history := b.get(id)
			last := history[len(history)-1].Reason
			if safe && (r.State != job.Completed || runs.Load() != 2) || !safe && (r.State != job.Dead || runs.Load() != 1 || last != policy.ReasonOutcomeUnknown) {
				t.Errorf("replay-safe %t: %s after %d runs: %v", safe, r.State, runs.Load(), story(history))
			}
			b.stop()
		})
	}
}

// TestI9TheRecordHoldsAnEncryptedOutput: the store of a worker with a codec never gets a plain output, nor does that of its guard.
func TestI9TheRecordHoldsAnEncryptedOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, store := guarded(t)
		keys, err := payload.NewKeys(payload.Key{ID: "k1", Secret: make([]byte, 32)})
		if err != nil {
			t.Fatal(err)
		}
		codec := payload.New(payload.Options{Keys: keys, Queue: func(string) policy.Codec { return policy.Codec{Encrypt: true} }})
		effects := 0
		b := work(t, func(_ context.Context, j job.Job[[]byte]) error {
			effects++
			j.SetOutput([]byte("receipt"))
			return nil
		}, job.WithWorkerCodec(codec), job.WithMiddleware(job.Idempotent(guard, func(job.Job[[]byte]) string { return "o1" })))
		for range 2 {
			id := b.enqueue(job.Request{})
			time.Sleep(time.Minute)
			r, _ := b.get(id)
			if output, err := job.OpenOutput(codec, r.Type, r.Output); err != nil || string(output) != "receipt" || r.State != job.Completed || !job.Sealed(r.Output) {
				t.Errorf("%s with output %q (%q): %v", r.State, output, r.Output, err)
			}
		}
		kept, err := store.Get(t.Context(), idempotency.ID{Operation: "t", Key: "o1"})
		if err != nil || effects != 1 || !job.Sealed(kept.Result) || bytes.Contains(kept.Result, []byte("receipt")) {
			t.Errorf("%d effects, kept %q: %v", effects, kept.Result, err)
		}
		b.stop()
	})
}

// TestI9AnOutputThatCannotBeEncodedIsNotTakenForNone: the effect is not repeated, but what needs its output must not run without it.
func TestI9AnOutputThatCannotBeEncodedIsNotTakenForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, _ := guarded(t)
		codec := payload.New(payload.Options{Queue: func(string) policy.Codec { return policy.Codec{Encrypt: true} }}) // without keys
		effects := 0
		b := work(t, func(_ context.Context, j job.Job[[]byte]) error {
			effects++
			j.SetOutput([]byte("receipt"))
			return nil
		}, job.WithWorkerCodec(codec), job.WithMiddleware(job.Idempotent(guard, nil)))
		id := b.enqueue(job.Request{})
		time.Sleep(time.Hour)
		if r, _ := b.get(id); r.State != job.Dead || r.Reason != policy.ReasonIdempotencyFailed || effects != 1 {
			t.Errorf("%s (%s) after %d effects", r.State, r.Reason, effects)
		}
		b.stop()
	})
}
