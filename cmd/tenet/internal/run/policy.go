package run

import (
	"context"
	"io"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/monitor"
	"github.com/tenetdev/tenet/cmd/tenet/internal/policies"
	"github.com/tenetdev/tenet/policy"
)

// edit overrides fields of a policy with the flags that were given.
func (f *runFlags) edit(p *policy.Policy) {
	r := &p.Retry
	if f.changed("max-attempts") {
		r.MaxAttempts = f.maxAttempts
	}
	if f.changed("timeout") {
		r.TimeoutPerAttempt = f.timeout
	}
	if f.changed("overall-timeout") {
		r.OverallTimeout = f.overallTimeout
	}
	if f.changed("backoff") {
		r.InitialBackoff = f.backoff
		if !f.changed("backoff-cap") {
			r.MaxBackoff = max(r.MaxBackoff, r.InitialBackoff) // without --backoff-cap the cap must not shorten --backoff
		}
	}
	if f.changed("backoff-cap") {
		r.MaxBackoff = f.backoffCap
	}
	if f.changed("multiplier") {
		r.BackoffMultiplier = f.multiplier
	}
	if f.changed("jitter") {
		r.Jitter = policy.Jitter(f.jitter)
	}
	if r.ClassifierName == "" || f.changed("retry-exit") {
		r.ClassifierName = command.Name
	}
	p.Hedge.Enabled = false
}

// load finds the document. Without one its policies are the defaults of commands.
func (r *runner) load(ctx context.Context) error {
	d := r.flags.document
	if d.Path == "" {
		defaults, err := policy.Compile(policy.Policy{}, policies.CommandLimits(), policy.SourceDefault)
		defaults.Meta.Revision = "" // there is no document
		r.set = policy.NewSet(policy.SetConfig{Source: policy.SourceDefault, Calls: defaults, CallLimits: policies.CommandLimits()})
		return err
	}
	d.Limits = map[policy.Surface]policy.Limits{policy.SurfaceCall: policies.CommandLimits()}
	if !d.IsServer() {
		document, err := r.LoadWithin(ctx, d.Path, d.Limits)
		if err == nil {
			r.set = document.Set
		}
		return err
	}
	provider, set, err := r.FollowDocument(ctx, d, r.Logger(r.Stderr, r.flags.verbose), nil)
	if err != nil {
		return err
	}
	r.set = set // a run keeps the document that it began with
	if closer, ok := provider.(io.Closer); ok {
		r.OnClose(closer.Close)
	}
	r.reports = monitor.Reports(provider)
	return nil
}

// effective returns the policy in force: the document's with the flags applied. It warns of values that the limits changed.
func (r *runner) effective() (*policy.Policy, error) {
	found := cli.PolicyOf(r.set, r.key)
	if r.flags.document.Path != "" && !r.set.Named(r.key) {
		r.Warn("%s does not name %s; its defaults apply", r.flags.document.Path, r.key)
	}
	if found.Hedge.Enabled {
		r.Warn("hedging is off for commands: the outputs of two attempts would mix")
	}
	changed := found.Clone()
	r.flags.edit(&changed)
	meta := &changed.Meta // loading the document has printed its warnings already
	meta.Defaulted, meta.Clamped, meta.Warnings, meta.Revision = nil, nil, nil, ""
	asked := changed.Retry
	normal, err := changed.Normalize(r.set.CallLimits())
	if err != nil {
		return nil, err
	}
	for _, path := range normal.Meta.Clamped {
		r.Warn("%s: %s is outside the limits; %s is used", path, policies.FieldOf(asked, path), policies.FieldOf(normal.Retry, path))
	}
	return &normal, nil
}
