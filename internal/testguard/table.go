package testguard

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policy"
)

const (
	lease = 10 * time.Second
	ttl   = time.Hour
)

var errEffect = errors.New("the effect failed")

// Answers. The statuses are those of HTTP servers, where an effect that fails answers 500.
var (
	succeeded   = Answer{OK: true, Result: "r", Status: 200}
	failed      = Answer{Status: 500}
	interrupted = Answer{} // by a panic or runtime.Goexit
	failedFirst = refusal(policy.ReasonIdempotencyFailed, 409, 0)
	unknown     = refusal(policy.ReasonOutcomeUnknown, 409, 0)
	mismatch    = refusal(policy.ReasonIdempotencyMismatch, 422, 0)
	badKey      = refusal(policy.ReasonIdempotencyBadKey, 400, 0)
	unavailable = refusal(policy.ReasonIdempotencyUnavailable, 503, 5*time.Second)
	inFlight    = refusal(policy.ReasonIdempotencyInFlight, 409, lease)
)

func refusal(reason policy.Reason, status int, after time.Duration) Answer {
	return Answer{Reason: reason, Status: status, RetryAfter: after}
}

// Effects.
func works(*bench, context.Context) (string, error)     { return "r", nil }
func fails(*bench, context.Context) (string, error)     { return "", errEffect }
func panics(*bench, context.Context) (string, error)    { panic("oops") }
func goexits(*bench, context.Context) (string, error)   { runtime.Goexit(); return "", nil }
func permanent(*bench, context.Context) (string, error) { return "", classify.Permanent(errEffect) }
func business(*bench, context.Context) (string, error)  { return "", classify.Business(errEffect) }
func after(*bench, context.Context) (string, error)     { return "", classify.After(errEffect, 0) }
func undecided(*bench, context.Context) (string, error) {
	return "", idempotency.OutcomeUnknown(errEffect)
}
func losesItsClaim(b *bench, _ context.Context) (string, error) {
	b.store.Change(taken)
	return "r", nil
}
func losesItsStore(b *bench, _ context.Context) (string, error) {
	b.store.Fail(false, true)
	return "r", nil
}

// Steps that scenarios share.
var (
	success = step{op: works, want: succeeded, ran: true, state: idempotency.Completed}
	replay  = step{op: works, want: succeeded, state: idempotency.Completed}
	failure = step{op: fails, want: failed, ran: true, state: idempotency.Released}
	final   = step{op: fails, want: failed, ran: true, state: idempotency.Failed}
	refused = step{op: works, want: failedFirst, state: idempotency.Failed}
)

// taken gives a record to another caller with a live claim.
func taken(r *idempotency.Record) {
	r.State, r.Owner, r.Fence, r.Lease, r.Expires = idempotency.InFlight, "another", r.Fence+1, time.Now().UTC().Add(lease), time.Time{}
}

func lapsed(r *idempotency.Record) {
	taken(r)
	r.Lease = time.Now().UTC().Add(-time.Microsecond)
}

// interruption returns the steps after an effect whose outcome is unknown.
func interruption(op func(*bench, context.Context) (string, error)) []step {
	return []step{
		{op: op, want: interrupted, ran: true, state: idempotency.InFlight},
		{op: works, want: inFlight, state: idempotency.InFlight},
		{wait: lease, op: works, want: unknown, state: idempotency.Unknown},
		{wait: 2 * ttl, op: works, want: unknown, state: idempotency.Unknown},
	}
}

// replaySafe returns the same steps for a guard that is replay-safe.
func replaySafe(op func(*bench, context.Context) (string, error)) []step {
	return []step{{op: op, want: interrupted, ran: true, state: idempotency.Released}, success, replay}
}

func isFinal(kind classify.Kind) classify.Classifier {
	return classify.Func(func(_ any, err error) classify.Outcome {
		if err == nil {
			return classify.Default(nil, nil)
		}
		return classify.Outcome{Kind: kind}
	})
}

func table() []scenario {
	safe := idempotency.GuardOptions{ReplaySafe: true}
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	late := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithDeadline(ctx, time.Now().Add(-time.Second))
	}
	return []scenario{
		{name: "I3 a success is replayed", steps: []step{success, replay, replay}},
		{name: "I3 a failure that may be repeated runs again", steps: []step{failure, failure, success, replay}},
		{name: "I3 a failure that the guard's classifier calls final is kept", options: idempotency.GuardOptions{Classify: isFinal(classify.NonRetryable)}, steps: []step{
			final, refused, refused,
		}},
		{name: "I3 a failure marked permanent is kept", errors: true, steps: []step{
			{op: permanent, want: failed, ran: true, state: idempotency.Failed}, refused,
		}},
		{name: "I3 a failure marked business is kept", errors: true, steps: []step{
			{op: business, want: failed, ran: true, state: idempotency.Failed}, refused,
		}},
		{name: "I3 a mark outranks the classifier", errors: true, options: idempotency.GuardOptions{Classify: isFinal(classify.NonRetryable)}, steps: []step{
			{op: after, want: failed, ran: true, state: idempotency.Released}, success,
		}},
		{name: "I3 a key in flight", steps: []step{
			success, {before: taken, op: works, want: inFlight, state: idempotency.InFlight},
		}},
		{name: "I3 another request under the key", steps: []step{
			success, {before: func(r *idempotency.Record) { r.Fingerprint = "another" }, op: works, want: mismatch, state: idempotency.Completed},
		}},
		{name: "I3 an expired record runs again", steps: []step{
			success,
			{wait: ttl - time.Microsecond, op: works, want: succeeded, state: idempotency.Completed},
			{wait: time.Microsecond, op: works, want: succeeded, ran: true, state: idempotency.Completed},
		}},
		{name: "I4 a lapsed claim leaves the outcome unknown", steps: []step{
			success, {before: lapsed, op: works, want: unknown, state: idempotency.Unknown},
		}},
		{name: "I4 a lapsed claim is taken over where that is safe", options: safe, steps: []step{
			success, {before: lapsed, op: works, want: succeeded, ran: true, state: idempotency.Completed},
		}},
		{name: "I4 a panic leaves the outcome unknown", steps: interruption(panics)},
		{name: "I4 a panic where a replay is safe", options: safe, steps: replaySafe(panics)},
		{name: "I4 Goexit leaves the outcome unknown", steps: interruption(goexits)},
		{name: "I4 Goexit where a replay is safe", options: safe, steps: replaySafe(goexits)},
		{name: "I4 an error that leaves the outcome unknown", errors: true, steps: interruption(undecided)},
		{name: "I4 an error that leaves the outcome unknown where a replay is safe", errors: true, options: safe, steps: replaySafe(undecided)},
		{name: "I5 a claim that was lost changes no outcome", steps: []step{
			{op: losesItsClaim, want: succeeded, ran: true, state: idempotency.InFlight},
		}},
		{name: "I5 a store that is down at the record changes no outcome", steps: []step{
			{op: losesItsStore, want: succeeded, ran: true, state: idempotency.InFlight},
			{op: works, want: unknown, state: idempotency.Unknown},
		}},
		{name: "I5 a result that is too large", options: idempotency.GuardOptions{MaxResult: 1 << 10}, steps: []step{
			{op: large, want: largeAnswer, ran: true, state: idempotency.Completed, kept: idempotency.FailureResultTooLarge},
			{op: works, want: Answer{OK: true, Status: 200}, state: idempotency.Completed, needs: &failedFirst},
		}},
		{name: "I5 a result that cannot be read", steps: []step{
			success,
			{before: spoil, op: works, want: Answer{OK: true, Result: "\x00", Status: 200}, state: idempotency.Completed, needs: &failedFirst},
		}},
		{name: "I6 a store that is down", steps: []step{
			{broken: func(b *bench) { b.store.Fail(true, false) }, op: works, want: unavailable}, success,
		}},
		{name: "A2 a journal that refuses", steps: []step{
			success, {broken: func(b *bench) { b.full = true }, op: works, want: unavailable, state: idempotency.Completed}, replay,
		}},
		{name: "I6 a caller that has gone", steps: []step{
			{ctx: canceled, op: works, want: refusal(policy.ReasonCanceled, 503, 0)},
			{ctx: late, op: works, want: refusal(policy.ReasonDeadlineExceeded, 503, 0)},
		}},
		{name: "I7 a bad key", steps: []step{{key: "a\nb", op: works, want: badKey}}},
	}
}

// largeAnswer is the answer of an effect whose result is larger than the guard stores.
var largeAnswer = Answer{OK: true, Result: string(make([]byte, 2<<10)), Status: 200}

func large(*bench, context.Context) (string, error) { return largeAnswer.Result, nil }

func spoil(r *idempotency.Record) {
	if r.HasResult {
		r.Result = []byte{0}
	}
}
