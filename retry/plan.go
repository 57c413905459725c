package retry

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// plan is a policy prepared for execution: every name is resolved to its mechanism. It is immutable.
type plan struct {
	executor   *Executor
	key        policy.Key
	surface    policy.Surface
	policy     *policy.Policy
	source     source
	state      *keyState
	refusal    refusal
	attributes observe.Attributes
	bare       callOptions // shared by calls without options

	classifier classify.Classifier // nil for the default
	budget     gate
	breaker    *circuit.Breaker
	changed    circuit.Transition // the change of the breaker by the policy
	hedge      hedger
	limiter    *limit.Limiter // nil without a limit
	traits
}

// source is what a plan was made from.
type source struct {
	found   *policy.Policy // the provider's answer
	fault   error          // the provider's error
	err     error          // why found cannot be used as it is; nil if it can
	version uint64         // of the provider
	budgets uint64         // version of the budgets
}

// catch is deferred around the provider under RecoverPanics: it turns a panic into the provider's error.
func (s *source) catch() {
	if v := recover(); v != nil {
		*s = source{fault: &PanicError{Part: "provider", Value: v, Stack: debug.Stack()}, version: noVersion}
	}
}

// panicked reports whether the provider panicked.
func (s *source) panicked() bool {
	_, panicked := s.fault.(*PanicError) //nolint:errorlint // as catch made it
	return panicked
}

// refusal is why no attempt may be made; its reason is "" if attempts may be made.
type refusal struct {
	reason policy.Reason
	cause  error
}

// hedger holds what hedging needs.
type hedger struct {
	trigger hedge.Trigger // nil while hedging is off
	digest  *hedge.Digest // nil if the trigger does not need one
	load    *hedge.Load   // bounds hedges to a share of calls
	budget  gate
	earner  budget.Earner // the hedges' own budget if calls fill it; nil if the first attempt asks it
}

// traits say what the attempts of a plan need.
type traits struct {
	timed   bool // breaker, limiter or digest need to know how long attempts take
	gated   bool // a breaker, a budget or a limit admits attempts
	plain   bool // attempts need no admission, timeout, classifier, hedge or observer
	shares  bool // a budget, the breaker or the limit is shared with other processes
	byClass bool // retry_on or abort_on are in use
}

// gate is a budget that a policy names.
type gate struct {
	budget   budget.Budget // nil if every attempt passes; reason says why
	ref      policy.BudgetRef
	reason   policy.Reason
	refused  bool // the budget is missing, and MissingBudgetMode is deny
	atLaunch bool
}

// prepare makes a plan from a provider's answer. The caller holds mu.
func (e *Executor) prepare(key policy.Key, state *keyState, answer source) *plan {
	p := &plan{executor: e, key: key, surface: key.Surface(), source: answer, state: state}
	e.adoptDocument(&p.source)
	if p.source.err = p.source.fault; p.source.found == nil && p.source.err == nil {
		p.source.err = fmt.Errorf("%w: %s", policy.ErrPolicyNotFound, key)
	}
	p.source.budgets = e.budgetsVersion() // read before the budgets, so that the next call sees a change in between
	e.choosePolicy(p)
	e.resolveNames(p, true)
	return p
}

// adoptDocument builds the budgets of the provider's document if the document has changed.
func (e *Executor) adoptDocument(answer *source) {
	provider, ok := e.options.Provider.(policy.SetProvider)
	if !ok {
		return
	}
	if e.options.RecoverPanics {
		defer answer.catch()
	}
	set := provider.Set()
	if set == nil || set == e.document {
		return
	}
	e.document = set
	if err := e.documentBudgets.Apply(set.Budgets()); err != nil { // a compiled document's budgets are valid
		panic(fmt.Sprintf("tenet: budgets of a compiled document: %v", err))
	}
	e.supplied.Add(1)
}

// budgetsVersion changes whenever a name may refer to another budget, classifier or class than before.
func (e *Executor) budgetsVersion() uint64 {
	version := e.supplied.Load()
	if e.options.Budgets != nil {
		version += e.options.Budgets.Version()
	}
	return version
}

// limits returns the limits for policies that are not compiled.
func (e *Executor) limits(s policy.Surface) policy.Limits {
	switch {
	case s != policy.SurfaceCall:
		return policy.LimitsFor(s)
	case e.options.Limits != nil:
		return *e.options.Limits
	case e.document != nil:
		return e.document.CallLimits()
	}
	return policy.CallLimits()
}

// choosePolicy decides which policy is in force, by MissingPolicyMode if the provider failed.
func (e *Executor) choosePolicy(p *plan) {
	usable := p.source.found
	if usable != nil && p.source.err != nil && usable.IsZero() {
		usable = nil
	}
	if usable != nil && !usable.Compiled() {
		normal, err := usable.Normalize(e.limits(p.surface))
		if err != nil {
			usable, p.source.err = nil, err
		} else {
			normal.Meta.Revision = "" // it may be that of the compiled policy that this one was copied from
			usable = &normal
		}
	}
	if p.source.err == nil {
		p.policy = usable
		p.describe()
		return
	}
	mode := e.options.MissingPolicyMode
	usedDefault := false
	switch {
	case p.source.panicked():
		p.refusal = refusal{policy.ReasonPanicInProvider, p.source.fault}
		usable = nil
	case mode == FailureDeny:
		p.refusal = refusal{policy.ReasonNoPolicy, fmt.Errorf("%w: %w", ErrNoPolicy, p.source.err)}
		usable = nil
	case mode == FailureFallback:
		usedDefault = usable == nil
	case mode == FailureAllow:
		usable = &policy.Policy{Key: p.key, Meta: policy.Meta{Source: policy.SourceDefault}}
		usable.Retry.MaxAttempts = 1
		single, _ := usable.Normalize(e.limits(p.surface))
		usable = &single
	}
	if usable == nil {
		fallback := policy.DefaultPolicyFor(p.key)
		usable = &fallback
	}
	p.policy = usable
	p.describe()
	p.describeError(mode)
	if usedDefault {
		p.attributes = p.attributes.With(observe.AttrPolicyFallback, "true")
	}
}

// describe writes the policy's origin into the attributes.
func (p *plan) describe() {
	meta := p.policy.Meta
	a := observe.Attributes{}.With(observe.AttrPolicySource, string(cmp.Or(meta.Source, policy.SourceStatic)))
	if len(meta.Defaulted)+len(meta.Clamped) > 0 {
		a = a.With(observe.AttrPolicyNormalized, "true")
	}
	if len(meta.Defaulted) > 0 {
		a = a.With(observe.AttrPolicyDefaulted, strings.Join(meta.Defaulted, ","))
	}
	if len(meta.Clamped) > 0 {
		a = a.With(observe.AttrPolicyClampedFields, strings.Join(meta.Clamped, ","))
	}
	if len(meta.Warnings) > 0 {
		a = a.With(observe.AttrPolicyWarnings, strings.Join(meta.Warnings, "; "))
	}
	p.attributes = a
}

// describeError writes the provider's error and the mode that applies to it into the attributes.
func (p *plan) describeError(mode FailureMode) {
	p.attributes = p.attributes.With(observe.AttrMissingPolicyMode, mode.String()).With(observe.AttrPolicyError, p.source.err.Error())
}

// resolveNames resolves the names in the plan's policy. shared reports whether the policy comes from the provider, and so may
// change the key's breaker. The caller holds mu.
func (e *Executor) resolveNames(p *plan, shared bool) {
	r, h := &p.policy.Retry, &p.policy.Hedge
	if r.ClassifierName != "" && r.ClassifierName != "default" {
		p.classifier = e.vocabulary.Load().classifiers[r.ClassifierName]
		if p.classifier == nil {
			p.attributes = p.attributes.With(observe.AttrClassifierNotFound, r.ClassifierName)
			if e.options.MissingClassifierMode == FailureDeny {
				p.refusal = refusal{policy.ReasonClassifierNotFound, fmt.Errorf("%w: %s", ErrNoClassifier, r.ClassifierName)}
			}
		}
	}
	p.byClass = len(r.RetryOn)+len(r.AbortOn) > 0
	e.checkClasses(p, slices.Concat(r.RetryOn, r.AbortOn))
	p.budget = e.gateFor(p, r.Budget)
	p.hedge.budget = p.budget // retries and hedges share a budget unless the hedge has its own
	if h.Budget.Name != "" {
		p.hedge.budget = e.gateFor(p, h.Budget)
		if h.Budget.Name != r.Budget.Name {
			p.hedge.earner, _ = p.hedge.budget.budget.(budget.Earner)
		}
	}
	e.setBreaker(p, shared)
	e.setLimiter(p, shared)
	if h.Enabled {
		e.setTrigger(p)
	}
	e.noteShared(p)
	p.bare.plan = p
	p.gated = p.breaker != nil || p.limiter != nil || p.budget.ref.Name != "" || p.hedge.trigger != nil
	p.plain = p.refusal.reason == "" && p.classifier == nil && !p.gated && r.TimeoutPerAttempt <= 0 && r.OverallTimeout <= 0 &&
		e.options.Observer == nil && e.options.Journal == nil
	p.timed = p.hedge.digest != nil || p.breaker != nil && p.policy.Circuit.Kind == policy.CircuitSlow ||
		p.limiter != nil && p.limiter.Timed()
}

// checkClasses notes the listed classes that no registered family can match.
func (e *Executor) checkClasses(p *plan, listed []policy.Class) {
	var missing []string
	for _, c := range listed {
		if !e.vocabulary.Load().families.Has(c) {
			missing = append(missing, string(c))
		}
	}
	if len(missing) > 0 {
		p.attributes = p.attributes.With(observe.AttrClassNotFound, strings.Join(missing, ","))
	}
}

func (e *Executor) gateFor(p *plan, ref policy.BudgetRef) gate {
	if ref.Name == "" {
		return gate{reason: policy.ReasonNoBudget}
	}
	b, ok := budget.Budget(nil), false
	if e.options.Budgets != nil {
		b, ok = e.options.Budgets.Get(ref.Name)
	}
	if !ok {
		b, ok = e.documentBudgets.Get(ref.Name)
	}
	if !ok {
		p.attributes = p.attributes.With(observe.AttrBudgetNotFound, ref.Name)
		return gate{ref: ref, reason: policy.ReasonBudgetNotFound, refused: e.options.MissingBudgetMode == FailureDeny}
	}
	asker, isAsker := b.(budget.AtLaunch)
	return gate{budget: b, ref: ref, atLaunch: isAsker && asker.AskAtLaunch()}
}

// setBreaker gives the plan the key's breaker, and updates the breaker to a changed policy. A policy that one call has
// edited can only switch the breaker off.
func (e *Executor) setBreaker(p *plan, shared bool) {
	c := p.policy.Circuit
	if c.Kind == "" {
		return
	}
	if shared {
		p.changed = e.updateBreaker(p.state, c)
	}
	p.breaker = p.state.breaker
}

func (e *Executor) setTrigger(p *plan) {
	name := p.policy.Hedge.TriggerName
	t, ok := e.options.Triggers[name]
	if !ok {
		t, ok = hedge.Builtin(name)
	}
	if !ok {
		p.attributes = p.attributes.With(observe.AttrTriggerNotFound, name)
		if e.options.MissingTriggerMode == FailureDeny {
			return
		}
		t = hedge.Fixed
	}
	if p.state.load == nil {
		p.state.load = &hedge.Load{}
	}
	p.hedge.trigger, p.hedge.load = t, p.state.load
	if !hedge.NeedsDigest(t) {
		return
	}
	if p.state.digest == nil {
		p.state.digest = &hedge.Digest{}
		if e.options.World != nil {
			p.state.digest = hedge.NewSerialDigest()
		}
	}
	p.hedge.digest = p.state.digest
}

// changed returns a copy of a policy, changed by a call's options.
func (e *Executor) changed(p *policy.Policy, o *callOptions) policy.Policy {
	changed := p.Clone()
	if o.category != "" && changed.Category == "" {
		changed = changed.UnderCategory(o.category, e.lockedLimits(p.Key.Surface()))
	}
	if o.edit != nil {
		o.edit(&changed) // without the lock, because it is the caller's code
	}
	return changed
}

// lockedLimits is limits for callers that do not hold mu.
func (e *Executor) lockedLimits(s policy.Surface) policy.Limits {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limits(s)
}

// edited makes a plan for one call that edits its policy. The plan shares the key's breaker, digest and load.
func (e *Executor) edited(base *plan, o *callOptions) *plan {
	p := &plan{executor: e, key: base.key, surface: base.surface, state: base.state}
	p.source.err = base.source.err
	if base.refusal.reason == policy.ReasonNoPolicy || base.refusal.reason == policy.ReasonPanicInProvider { // other missing names are looked up again
		p.refusal = base.refusal
	}
	changed := e.changed(base.policy, o)
	changed.Key = base.key
	changed.Meta.Source, changed.Meta.Revision = policy.SourceOption, ""
	if changed.Circuit.Kind != "" {
		changed.Circuit = base.policy.Circuit
	}
	if changed.Limit.Active() {
		wait := changed.Limit.MaxWait
		changed.Limit = base.policy.Limit
		changed.Limit.MaxWait = wait
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	normal, err := changed.Normalize(e.limits(p.surface))
	if err != nil {
		p.source.found, p.source.err = base.policy, err
		e.choosePolicy(p)
	} else {
		p.policy = &normal
		p.describe()
		if p.source.err != nil {
			p.describeError(e.options.MissingPolicyMode)
		}
		if fallback := base.attributes.Get(observe.AttrPolicyFallback); fallback != "" {
			p.attributes = p.attributes.With(observe.AttrPolicyFallback, fallback)
		}
	}
	e.resolveNames(p, false)
	return p
}
