package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Steps of consumers and producers, as keys and seeds name them.
const (
	stepFetch       = observe.StepFetch
	stepProcess     = observe.StepProcess
	stepProduce     = observe.StepProduce
	stepSuccess     = observe.StepSuccess
	stepException   = observe.StepException
	stepTransaction = observe.StepTransaction // a whole transaction, for observers
	stepRun         = observe.StepRun         // a whole run, for observers
)

// loop holds the common settings of the outer loops of consumers and producers.
type loop struct {
	category    policy.Category // of transactions and runs; steps have their own
	batch       policy.Batch
	concurrency int
	timeout     time.Duration
	limit       int
	transaction time.Duration
	streaming   bool
	empty       policy.Retry // the wait after empty fetches
	extra       map[string]any
}

// policies hold the policies in force. They are the provider of the engine's executor, and change only before batches and while no
// worker is free.
type policies struct {
	name    string
	kind    kind
	keys    []policy.Key
	live    policy.Provider // nil if the policies never change
	base    *snapshot       // from the policy given to the constructor
	inForce atomic.Pointer[snapshot]
	log     *slog.Logger
}

// snapshot is an immutable set of policies in force.
type snapshot struct {
	version  uint64
	provided uint64 // the live provider's version
	set      *policy.Set
	steps    map[policy.Key]step
	loop     loop
	refused  string // why the live provider's policy for the engine is not in force
}

type step struct {
	policy   *policy.Policy
	err      error
	provided *policy.Policy // the live provider's answer
	unusable error          // why the answer cannot be used
}

// Policy implements policy.Provider.
func (p *policies) Policy(_ context.Context, key policy.Key) (*policy.Policy, error) {
	found := p.inForce.Load().steps[key] // the engine asks for no other keys
	return found.policy, found.err
}

// Version implements policy.Versioned.
func (p *policies) Version() uint64 { return p.inForce.Load().version }

// Set implements policy.SetProvider, for the budgets.
func (p *policies) Set() *policy.Set { return p.inForce.Load().set }

// same reports whether two steps are equal. It compares errors by their text, because a provider's error may not be
// comparable.
func (s step) same(other step) bool {
	return s.policy == other.policy && s.provided == other.provided && fmt.Sprint(s.err) == fmt.Sprint(other.err)
}

// loop returns the loop in force.
func (p *policies) loop() *loop { return &p.inForce.Load().loop }

// enginePolicy is a consumer's or producer's policy with its defaults.
type enginePolicy struct {
	steps map[string]policy.Step // by name
	loop  loop
	fault error // why the policy cannot be used
}

func ofConsumer(given policy.Consumer) enginePolicy {
	p, err := checked(given)
	return enginePolicy{steps: map[string]policy.Step{
		stepFetch:   {Category: p.Steps.Fetch.Category, Retry: p.Steps.Fetch.Retry, Limit: p.Steps.Fetch.Limit},
		stepProcess: p.Steps.Process, stepSuccess: p.Steps.Success, stepException: p.Steps.Exception,
	}, loop: consumerLoop(p), fault: err}
}

func ofProducer(given policy.Producer) enginePolicy {
	p, err := checked(given)
	return enginePolicy{steps: map[string]policy.Step{
		stepProduce: p.Steps.Produce, stepSuccess: p.Steps.Success, stepException: p.Steps.Exception,
	}, loop: producerLoop(p), fault: err}
}

// newPolicies makes the policies of an engine from the policy given to its constructor.
func newPolicies(k kind, name string, from enginePolicy) (*policies, error) {
	p := &policies{name: name, kind: k}
	s := &snapshot{version: 1, steps: map[policy.Key]step{}, loop: from.loop, set: policy.NewSet(policy.SetConfig{Source: policy.SourceStatic})}
	for name, given := range from.steps {
		key := k.key(p.name, name)
		compiled, err := policy.Compile(policy.Policy{Key: key, Retry: given.Retry, Limit: given.Limit}, policy.StepLimits(), policy.SourceStatic)
		if err != nil {
			return nil, err
		}
		if given.Category != "" { // defaults are filled in already, so a zero value is intended
			compiled.Category = given.Category
			if compiled.Meta.Revision, err = compiled.Revise(); err != nil {
				return nil, err // not reached in tests: a compiled policy can be encoded
			}
		}
		p.keys = append(p.keys, key)
		s.steps[key] = step{policy: compiled}
	}
	p.base = s
	p.inForce.Store(s)
	return p, nil
}

// refresh takes over the live provider's current policies.
func (p *policies) refresh(ctx context.Context) {
	if p.live == nil {
		return
	}
	defer p.catch()
	current := p.inForce.Load()
	var provided uint64
	versioned, ok := p.live.(policy.Versioned)
	if ok {
		provided = versioned.Version()
		if provided == current.provided && current != p.base {
			return
		}
	}
	next := &snapshot{version: current.version + 1, provided: provided, set: p.base.set, steps: p.base.steps, loop: p.base.loop}
	if document, ok := p.live.(policy.SetProvider); ok && document.Set() != nil {
		next.set = document.Set()
		named, ok := p.kind.policyOf(next.set, p.name)
		switch {
		case !ok:
			p.adopt(next)
			return
		case named.fault != nil:
			p.refuse(*current, provided, named.fault)
			return
		}
		next.loop = named.loop
	}
	next.steps = make(map[policy.Key]step, len(p.keys))
	for _, key := range p.keys {
		found, err := p.live.Policy(ctx, key)
		usable, unusable := p.unhedged(key, found)
		if usable == nil { // the defaults of calls could retry a step that must not be retried
			usable, err = current.steps[key].policy, cmp.Or(err, unusable)
		}
		next.steps[key] = step{policy: usable, err: err, provided: found, unusable: unusable}
	}
	p.adopt(next)
}

// catch is deferred around the live provider: after a panic the policies stay in force, and the provider is asked again.
func (p *policies) catch() {
	if v := recover(); v != nil {
		p.refuse(*p.inForce.Load(), math.MaxUint64, &retry.PanicError{Part: "provider", Value: v, Stack: debug.Stack()})
	}
}

// refuse keeps the policies in force, and logs each fault once.
func (p *policies) refuse(current snapshot, provided uint64, err error) {
	if text := err.Error(); current.refused != text {
		p.log.Error("pipeline: the new policy cannot be used; the previous one stays in force", "pipeline", p.name, "kind", p.kind, "error", err)
		current.refused = text
	}
	current.provided = provided
	p.inForce.Store(&current)
}

// adopt puts a snapshot in force. The version stays the same if the steps' policies have not changed, because executors
// prepare their plans again for each version.
func (p *policies) adopt(next *snapshot) {
	current := p.inForce.Load()
	if current != p.base && current.set == next.set && maps.EqualFunc(current.steps, next.steps, step.same) {
		next.version = current.version
	}
	p.inForce.Store(next)
}

// unhedged switches hedging off: a transaction's steps run on their worker, one attempt at a time.
func (p *policies) unhedged(key policy.Key, found *policy.Policy) (usable *policy.Policy, err error) {
	switch old := p.inForce.Load().steps[key]; {
	case found == nil:
		return nil, fmt.Errorf("%w: %s", policy.ErrPolicyNotFound, key)
	case found.Compiled() && !found.Hedge.Enabled:
		return found, nil
	case old.provided == found && old.unusable != nil:
		return nil, old.unusable
	case old.provided == found:
		return old.policy, nil
	}
	changed := found.Clone()
	changed.Hedge.Enabled = false
	return policy.Compile(changed, policy.StepLimits(), found.Meta.Source)
}

// kind is consumer or producer.
type kind string

const (
	consumer kind = "consumer"
	producer kind = "producer"
)

// key is the key of a step of a named engine.
func (k kind) key(name, step string) policy.Key {
	if k == producer {
		return policy.ProducerKey(name, step)
	}
	return policy.ConsumerKey(name, step)
}

// policyOf finds an engine's policy in a document. A fault is possible, since a program may have built the document without a parser.
func (k kind) policyOf(set *policy.Set, name string) (p enginePolicy, named bool) {
	if k == producer {
		found, ok := set.Producer(name)
		return ofProducer(found), ok
	}
	found, ok := set.Consumer(name)
	return ofConsumer(found), ok
}

// checked returns a policy with its defaults, or an error if it cannot be used.
func checked[P interface {
	Validate(policy.Limits) error
	Normalize(policy.Limits) (P, error)
}](p P) (P, error) {
	limits := policy.StepLimits()
	if err := p.Validate(limits); err != nil {
		return p, err
	}
	return p.Normalize(limits)
}

func consumerLoop(c policy.Consumer) loop {
	l := c.Loop
	return loop{
		category: c.Category, batch: l.Batch, concurrency: max(l.Concurrency.Value, 1), timeout: l.Timeout, limit: l.Limit,
		transaction: l.TransactionTimeout, streaming: l.Streaming, extra: c.Steps.Fetch.Extra,
		empty: policy.Retry{
			InitialBackoff: l.EmptyQueue.Backoff, BackoffMultiplier: l.EmptyQueue.BackoffMultiplier,
			MaxBackoff: l.EmptyQueue.BackoffCap, Jitter: policy.JitterNone,
		},
	}
}

func producerLoop(p policy.Producer) loop {
	l := p.Loop
	return loop{
		category: p.Category, batch: l.Batch, concurrency: max(l.Concurrency.Value, 1), timeout: l.Timeout, limit: l.Limit,
		transaction: l.TransactionTimeout,
	}
}
