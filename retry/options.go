package retry

import (
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// CallOption changes one call.
type CallOption func(*callOptions)

// callOptions are the settings of one call. They are read-only once the call has begun.
type callOptions struct {
	plan     *plan
	category policy.Category
	edit     func(*policy.Policy)
	fallback any // a fallback[T]; nil without one
	seed     seed
	position
	labels
	effect
	hedging
}

// position places a call, an attempt of stored work or a step of a transaction among those of the same work.
type position struct {
	id    string // of the work
	turn  int    // of stored work, or the place of a step among those of its transaction
	step  string // of a pipeline's transaction; part of the seed
	limit int    // effective maximum of attempts; 0 for the policy's
}

// labels go into records.
type labels struct {
	operation     string
	tenantID      string
	correlationID string
	traceID       string
	attributes    observe.Attributes // of the caller's
}

// effect is what makes a call one effect, however often its operation runs.
type effect struct {
	guard          *idempotency.Guard
	idempotencyKey string
	fingerprint    string
}

// hedging restricts what the policy says about hedges.
type hedging struct {
	unhedged    bool // never hedged
	hedgedByKey bool // hedged only with an idempotency key
}

// collect applies a call's options. Calls without any share the plan's.
func (p *plan) collect(options []CallOption) *callOptions {
	if len(options) == 0 {
		return &p.bare
	}
	return p.with(options)
}

func (p *plan) with(options []CallOption) *callOptions {
	o := &callOptions{plan: p}
	for _, option := range options {
		argument.Need(option != nil, "retry: a call option")
		option(o)
	}
	return o
}

// WithCallID sets the call's ID. Default: a UUIDv7, made when first needed.
func WithCallID(id string) CallOption { return func(o *callOptions) { o.id = id } }

// WithOperation names what is being done, for errors and records. Unlike the key it may be of high cardinality.
func WithOperation(name string) CallOption { return func(o *callOptions) { o.operation = name } }

// WithCategory runs the call under a category of the catalog, given by its name or its code. The catalog replaces the
// built-in defaults of the key's policy, and records carry the category's code. A category in the policy itself wins, as
// does a timeout that a document sets to null. An unknown category runs with 3 attempts from 1 s to 30 s, has no code, and
// leaves a warning in the attribute policy_warnings.
func WithCategory(c policy.Category) CallOption { return func(o *callOptions) { o.category = c } }

// WithIdempotencyKey sets the key by which the server recognises a repetition. Integrations send it along and may then
// retry operations that are not idempotent by themselves; records carry it. Nothing is stored locally.
func WithIdempotencyKey(key string) CallOption {
	return func(o *callOptions) { o.idempotencyKey = key }
}

// WithIdempotency runs the whole call, attempts and waits, at most once per key. If the key's effect has happened before,
// the call returns the stored result without an attempt. The record's scope is the call's tenant and operation. A success
// is recorded with its value as JSON. A failure that must not be repeated, or that the guard's classifier calls final, is
// recorded as final. After every other failure the next caller runs again. A panic leaves the outcome unknown, unless the
// guard is ReplaySafe. The effect should be safe to repeat within the call: its attempts share one claim. A nil guard panics.
//
// Where the effect has happened but could not be recorded, or its result could not, the error is an *[idempotency.RecordError] or an
// *[idempotency.ResultError], not an [*Error]. The overall timeout does not bound the guard's own waits: [idempotency.GuardOptions]
// does. A hedged call that is cancelled or runs out of time releases its claim while its attempts may still be ending, so that the
// next caller may run beside them, as hedges do.
func WithIdempotency(guard *idempotency.Guard, key string) CallOption {
	argument.Need(guard != nil, "retry: WithIdempotency: the guard") // without it the effect would run unguarded
	return func(o *callOptions) { o.guard, o.idempotencyKey = guard, key }
}

// WithFingerprint sets the fingerprint of the request under the idempotency key, see idempotency.Fingerprint. The same key
// with another fingerprint is refused.
func WithFingerprint(fingerprint string) CallOption {
	return func(o *callOptions) { o.fingerprint = fingerprint }
}

// WithoutHedging runs the call without hedges whatever its policy says, for operations that must not run twice at once.
func WithoutHedging() CallOption { return func(o *callOptions) { o.unhedged = true } }

// WithSingleAttempt runs the operation once whatever the policy says: no retries and no hedges. It is meant for servers, whose
// handlers consume the request that they serve.
func WithSingleAttempt() CallOption { return func(o *callOptions) { o.limit, o.unhedged = 1, true } }

// WithHedgingByKey lets the policy hedge the call only if the call has an idempotency key, by which the server recognises
// two attempts as the same request.
func WithHedgingByKey() CallOption { return func(o *callOptions) { o.hedgedByKey = true } }

// hedgeable reports whether the call's policy may hedge it.
func (o *callOptions) hedgeable() bool {
	return !o.unhedged && (!o.hedgedByKey || o.idempotencyKey != "")
}

// WithTenant sets the tenant ID of records.
func WithTenant(id string) CallOption { return func(o *callOptions) { o.tenantID = id } }

// WithCorrelation sets the correlation ID of records.
func WithCorrelation(id string) CallOption { return func(o *callOptions) { o.correlationID = id } }

// WithTrace sets the trace ID of records.
func WithTrace(id string) CallOption { return func(o *callOptions) { o.traceID = id } }

// WithAttribute adds an attribute to the call's timeline, events and audit trail. It replaces an earlier attribute of the
// same name. The name comes first, as in slog.String. Never put secrets or payloads into it.
func WithAttribute(name, value string) CallOption {
	return func(o *callOptions) { o.attributes = o.attributes.With(name, value) }
}

// WithPolicy edits a copy of the policy for this call only, field by field. The result is normalised again, under the
// executor's limits. It costs a few microseconds per call: policies that do not change from call to call belong in a
// document. All calls of a key share a breaker and a limit; the edit can switch them off and set limit.max_wait, but not change them otherwise.
func WithPolicy(edit func(p *policy.Policy)) CallOption {
	argument.Need(edit != nil, "retry: WithPolicy: the function")
	return func(o *callOptions) { o.edit = edit }
}

// WithSeed sets the seed of the delays' jitter. Default: derived from the call's ID.
func WithSeed(value uint64) CallOption {
	return func(o *callOptions) { o.seed = seed{value, true} }
}
