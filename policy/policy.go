package policy

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/canonical"
)

// Policy is everything that governs work under one key. It is pure data: JSON in, JSON out, the same policy back.
type Policy struct {
	Key Key `json:"-"`
	// ID is a revision name chosen by the author, shown in errors, timelines and audit events.
	ID string `json:"id"`
	// Category takes defaults from the catalog of operation categories, for example NATS_PUBLISH, and marks what the policy's
	// work records. Names and codes (RETRY_NATS_PUBLISH) are accepted. Default none.
	Category Category `json:"category" check:"null"`
	// Retry bounds repetition.
	Retry Retry `json:"retry"`
	// Hedge starts further attempts while a slow one is running.
	Hedge Hedge `json:"hedge" check:"null"`
	// Circuit is a breaker that stops calls after repeated failures.
	Circuit Circuit `json:"circuit" check:"null"`
	// Limit bounds how many attempts run at a time and start per period.
	Limit Limit `json:"limit" check:"null"`

	Meta Meta `json:"-"`
}

// Hedge starts extra attempts while a slow primary is running. Off unless enabled.
type Hedge struct {
	// Enabled switches hedging on. Only idempotent operations should be hedged.
	Enabled bool `json:"enabled"`
	// MaxHedges is the number of extra attempts in each group of attempts, the primary not counted. Default 1.
	MaxHedges int `json:"max_hedges" check:"min=1"`
	// HedgeDelay is the wait before a hedge if the trigger does not give one, in seconds. Default 0.2.
	HedgeDelay time.Duration `json:"delay" check:"positive"`
	// TriggerName decides when to hedge: fixed, p50, p90, p95, p99 or a registered name. Default fixed.
	TriggerName string `json:"trigger"`
	// MaxExtraLoad bounds hedges to this fraction of calls. Default 0, unlimited.
	MaxExtraLoad float64 `json:"max_extra_load" check:"min=0,max=1"`
	// CancelOnFirstTerminal ends the group at its first non-retryable or aborted attempt. Default false: a later success of
	// the group can still win.
	CancelOnFirstTerminal bool `json:"cancel_on_first_terminal"`
	// Budget is asked before every hedge. Default: the budget of retry.
	Budget BudgetRef `json:"budget" check:"null"`
}

// Circuit is a breaker in front of the operation. Off unless a kind is given.
type Circuit struct {
	// Kind is consecutive (failures in a row), rate (share of failures) or slow (share of slow calls).
	Kind CircuitKind `json:"kind"`
	// Failures in a row that open a consecutive breaker. Default 5.
	Failures int `json:"failures" check:"min=1"`
	// FailureRate that opens a rate breaker. Default 0.5.
	FailureRate float64 `json:"failure_rate" check:"positive,max=1"`
	// SlowRate that opens a slow breaker. Default 0.5.
	SlowRate float64 `json:"slow_rate" check:"positive,max=1"`
	// SlowAfter is how long an attempt may take before it counts as slow, in seconds. Default 1.
	SlowAfter time.Duration `json:"slow_after" check:"positive"`
	// MinimumCalls in the window before a rate is judged. Default 20.
	MinimumCalls int `json:"minimum_calls" check:"min=1"`
	// Window over which rates are counted, in seconds. Default 10.
	Window time.Duration `json:"window" check:"positive"`
	// Cooldown is how long the breaker stays open before it lets probes through, in seconds. Default 10.
	Cooldown time.Duration `json:"cooldown" check:"positive"`
	// Probes let through at a time while half open; as many successes close the breaker. Default 1.
	Probes int `json:"probes" check:"min=1"`
	// Scope is process, or shared with the other processes that use the same store of limits. Default process.
	Scope Scope `json:"scope"`
}

// Scope says whether each process counts for itself.
type Scope string

// The scopes. The zero value means process.
const (
	ScopeProcess Scope = "process"
	ScopeShared  Scope = "shared"
)

// Values lists the accepted values.
func (Scope) Values() []string { return []string{string(ScopeProcess), string(ScopeShared)} }

// CircuitKind is what a breaker counts.
type CircuitKind string

// The kinds of breaker. The zero value means no breaker.
const (
	CircuitConsecutive CircuitKind = "consecutive"
	CircuitRate        CircuitKind = "rate"
	CircuitSlow        CircuitKind = "slow"
)

// Values lists the accepted values.
func (CircuitKind) Values() []string {
	return []string{string(CircuitConsecutive), string(CircuitRate), string(CircuitSlow)}
}

// The triggers that need no registration.
const (
	TriggerFixed = "fixed"
	TriggerP50   = "p50"
	TriggerP90   = "p90"
	TriggerP95   = "p95"
	TriggerP99   = "p99"
)

// Triggers lists the built-in hedge triggers.
func Triggers() []string {
	return []string{TriggerFixed, TriggerP50, TriggerP90, TriggerP95, TriggerP99}
}

// Budget describes a budget of a document, shared by every policy that names it.
type Budget struct {
	// Kind is unlimited, token_bucket (bounds all attempts) or retry_ratio (bounds retries and hedges only).
	Kind BudgetKind `json:"kind"`
	// Capacity of a token bucket.
	Capacity float64 `json:"capacity" check:"min=1,max=1000000000"`
	// RefillPerSecond is how many tokens a bucket regains per second.
	RefillPerSecond float64 `json:"refill_per_second" check:"positive,max=1000000000"`
	// Ratio of extra attempts to calls that a retry ratio allows. It counts in billionths. Default 0.2.
	Ratio float64 `json:"ratio" check:"positive,min=0.000000001,max=10"`
	// Burst of extra attempts that a retry ratio allows beyond the ratio. Default 10.
	Burst float64 `json:"burst" check:"min=1,max=1000000"`
	// Scope is process, or shared with the other processes that use the same store of limits. Default process.
	Scope Scope `json:"scope"`
}

// BudgetKind is how a budget counts.
type BudgetKind string

// The kinds of budget.
const (
	BudgetUnlimited   BudgetKind = "unlimited"
	BudgetTokenBucket BudgetKind = "token_bucket"
	BudgetRetryRatio  BudgetKind = "retry_ratio"
)

// Values lists the accepted values.
func (BudgetKind) Values() []string {
	return []string{string(BudgetUnlimited), string(BudgetTokenBucket), string(BudgetRetryRatio)}
}

// Meta says where a policy came from and how normalising changed it. It is never serialised.
type Meta struct {
	Source    Source
	Defaulted []string // dotted paths of fields that took their default
	Clamped   []string // dotted paths of fields that were out of range
	None      []string // dotted paths of fields that a document sets to null, which a category does not fill
	Warnings  []string // for example an unknown category
	Revision  string   // SHA-256 of the canonical form, in hexadecimal; set by Compile
	normal    bool     // Normalize has run, so a zero field stays zero, whatever the category says
	compiled  *Policy  // the policy made by Compile; a policy that differs from it is no longer compiled
}

// Source is where a policy came from.
type Source string

// The sources of policies.
const (
	SourceStatic  Source = "static"  // given in code
	SourceFile    Source = "file"    // a document on disk
	SourceRemote  Source = "remote"  // a control plane
	SourceLKG     Source = "lkg"     // last known good: the control plane did not answer
	SourceDefault Source = "default" // no policy names the key
	SourceCatalog Source = "catalog" // a category's defaults
	SourceOption  Source = "option"  // changed by a call's own option
)

// DefaultPolicyFor returns the policy of a key without configuration, which is the default of its surface. A call has 3
// attempts, 10 ms doubling to 250 ms, full jitter, and neither timeouts nor hedging nor a breaker; a job has 25 attempts, a
// step one.
func DefaultPolicyFor(k Key) Policy {
	p, _ := Policy{Key: k}.Normalize(LimitsFor(k.Surface()))
	p.Meta.Source = SourceDefault
	return p
}

// Compile normalises p under limits l, notes its source and revision, and marks it ready for sharing. Providers return
// compiled policies, which nobody may change.
func Compile(p Policy, l Limits, source Source) (*Policy, error) {
	p = p.Clone()
	p, err := p.Normalize(l)
	if err != nil {
		return nil, err
	}
	p.Meta.Source = source
	if p.Meta.Revision, err = p.Revise(); err != nil {
		return nil, err // not reached in tests: a normalised policy can be encoded
	}
	made := p.Clone()
	p.Meta.compiled = &made
	return &p, nil
}

// Compiled reports whether p, or the policy that p is a copy of, was made by [Compile] and needs no further normalisation:
// its Retry, Hedge, Circuit and Limit are as Compile left them. It costs about a microsecond; ask once, not per call.
func (p *Policy) Compiled() bool {
	made := p.Meta.compiled
	return made != nil && p.Hedge == made.Hedge && p.Circuit == made.Circuit && p.Limit == made.Limit && reflect.DeepEqual(p.Retry, made.Retry)
}

// Revise returns the policy's revision: the SHA-256 of its canonical JSON (RFC 8785) in hexadecimal.
func (p Policy) Revise() (string, error) {
	revision, err := canonical.Hash(encode(reflect.ValueOf(p))) // as MarshalJSON, whose result would be checked and copied once more
	if err != nil {
		return "", fmt.Errorf("policy %s: %w", p.Key, err)
	}
	return revision, nil
}

// Clone returns a copy that shares nothing with p and is no longer marked as compiled.
func (p Policy) Clone() Policy {
	p.Retry = p.Retry.clone()
	p.Meta.Defaulted = slices.Clone(p.Meta.Defaulted)
	p.Meta.Clamped = slices.Clone(p.Meta.Clamped)
	p.Meta.None = slices.Clone(p.Meta.None)
	p.Meta.Warnings = slices.Clone(p.Meta.Warnings)
	p.Meta.compiled = nil
	return p
}

// IsZero reports whether no field of the policy but its key is set.
func (p Policy) IsZero() bool {
	return p.ID == "" && p.Category == "" && p.Retry.isZero() && p.Hedge == Hedge{} && p.Circuit == Circuit{} && p.Limit == Limit{}
}

func (r Retry) isZero() bool {
	lists := len(r.RetryOn) + len(r.AbortOn)
	return lists == 0 && r.MaxAttempts == 0 && r.InitialBackoff == 0 && r.BackoffMultiplier == 0 && r.MaxBackoff == 0 &&
		r.Jitter == "" && r.JitterFactor == 0 && r.TimeoutPerAttempt == 0 && r.OverallTimeout == 0 &&
		r.ClassifierName == "" && r.MaxPushback == 0 && r.Budget == BudgetRef{}
}
