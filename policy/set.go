package policy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Set is a compiled document: immutable, versioned, safe for concurrent use. It is itself a [Provider], a [Versioned]
// and a [SetProvider].
type Set struct {
	config SetConfig
}

// SetConfig holds the contents of a Set. NewSet takes ownership of the maps; they must not be changed afterwards.
type SetConfig struct {
	Source   Source
	Revision string // SHA-256 of the document's canonical form
	// Policies holds compiled policies by their full keys: calls by their own keys, jobs by [JobKey] (an empty queue or type
	// means any), steps by [ConsumerKey] and [ProducerKey].
	Policies map[Key]*Policy
	// Calls, Jobs and Steps are the templates for keys that Policies does not name. Nil means the built-in default.
	Calls, Jobs, Steps *Policy
	// CallLimits are the document's limits for calls; the executor applies them to policies that a call edits. The zero value
	// means the built-in limits.
	CallLimits Limits
	Budgets    map[string]Budget
	Queues     map[string]Queue
	// Limits of the jobs of every queue and type that the document names, also of those without limits.
	Limits    []LimitScope
	Consumers map[string]Consumer
	Producers map[string]Producer
}

// NewSet makes a set.
func NewSet(c SetConfig) *Set { return &Set{config: c} }

// Policy returns the policy of a key; a key that the set does not name gets the document's defaults. It never fails.
func (s *Set) Policy(_ context.Context, key Key) (*Policy, error) {
	p, ok := s.lookup(key)
	if !ok {
		p = s.template(key.Surface())
	}
	if p.Key == key {
		return p, nil
	}
	under := *p // still compiled: only the key differs
	under.Key = key
	return &under, nil
}

func (s *Set) lookup(key Key) (*Policy, bool) {
	if p, ok := s.config.Policies[key]; ok {
		return p, true
	}
	queue, isJob := strings.CutPrefix(key.Namespace, jobNamespace)
	if !isJob {
		return nil, false
	}
	if p, ok := s.config.Policies[JobKey("", key.Name)]; ok {
		return p, true
	}
	p, ok := s.config.Policies[JobKey(queue, "")]
	return p, ok
}

func (s *Set) template(surface Surface) *Policy {
	template := s.config.Calls
	switch surface {
	case SurfaceJob:
		template = s.config.Jobs
	case SurfaceStep:
		template = s.config.Steps
	}
	if template == nil {
		template = defaults()[surface]
	}
	return template
}

// defaults are the built-in policies, compiled once.
var defaults = sync.OnceValue(func() map[Surface]*Policy {
	compiled := map[Surface]*Policy{}
	for _, surface := range []Surface{SurfaceCall, SurfaceJob, SurfaceStep} {
		compiled[surface], _ = Compile(Policy{}, LimitsFor(surface), SourceDefault) // an empty policy is always valid
	}
	return compiled
})

// Named reports whether the document names the key, as opposed to covering it by defaults.
func (s *Set) Named(key Key) bool {
	_, ok := s.lookup(key)
	return ok
}

// KeyNamed returns the key that a name in the form of [Key.String] means in the set. Names of queues, job types and pipelines
// may contain dots, and [ParseKey] would split them at the first one. KeyNamed splits off a step at the last dot, and splits
// a job where the set has the type or else the queue.
func (s *Set) KeyNamed(name string) Key {
	key := ParseKey(name)
	name = key.String()
	switch key.Surface() {
	case SurfaceStep:
		last := strings.LastIndexByte(name, '.')
		return Key{Namespace: name[:last], Name: name[last+1:]}
	case SurfaceCall:
		return key
	}
	var ofType, ofQueue Key
	for k := range s.config.Policies {
		switch {
		case k.Surface() != SurfaceJob:
		case k.String() == name:
			return k
		case k.Namespace == jobNamespace && len(k.Name) > len(ofType.Name) && strings.HasSuffix(name, "."+k.Name):
			ofType = Key{Namespace: strings.TrimSuffix(name, "."+k.Name), Name: k.Name}
		case k.Name == "" && len(k.Namespace) > len(ofQueue.Namespace) && strings.HasPrefix(name, k.String()):
			ofQueue = Key{Namespace: k.Namespace, Name: strings.TrimPrefix(name, k.String())}
		}
	}
	switch {
	case !ofType.IsZero():
		return ofType
	case !ofQueue.IsZero():
		return ofQueue
	}
	return key
}

// Find is KeyNamed for a name that a person wrote: if it is not a call's key in the set, it may also name a job type, a
// queue, a consumer or producer (which means its main step), or a step (NAME.STEP).
func (s *Set) Find(name string) Key {
	key := s.KeyNamed(name)
	if key.Surface() != SurfaceCall || s.config.Policies[key] != nil {
		return key
	}
	name = key.String()
	candidates := []Key{JobKey("", name), JobKey(name, ""), ConsumerKey(name, "process"), ProducerKey(name, "produce")}
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		candidates = append(candidates, ConsumerKey(name[:dot], name[dot+1:]), ProducerKey(name[:dot], name[dot+1:]))
	}
	for _, k := range candidates {
		if s.config.Policies[k] != nil {
			return k
		}
	}
	return key
}

// Keys lists the keys that the document names, sorted.
func (s *Set) Keys() []Key {
	return slices.SortedFunc(maps.Keys(s.config.Policies), func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
}

// Version returns a constant, since a set never changes.
func (s *Set) Version() uint64 { return 1 }

// Set returns s.
func (s *Set) Set() *Set { return s }

// Source is where the document came from.
func (s *Set) Source() Source { return s.config.Source }

// Revision is the SHA-256 of the document's canonical form, in hexadecimal.
func (s *Set) Revision() string { return s.config.Revision }

// CallLimits are the limits of calls under this document.
func (s *Set) CallLimits() Limits {
	if s.config.CallLimits.Surface == "" {
		return CallLimits()
	}
	return s.config.CallLimits
}

// Budgets returns a copy of the document's budgets by name.
func (s *Set) Budgets() map[string]Budget { return maps.Clone(s.config.Budgets) }

// Shared names what a policy of the set shares with other processes: "budget NAME", "circuit", "limit".
func (s *Set) Shared(p *Policy) []string {
	var parts []string
	refs := []BudgetRef{p.Retry.Budget}
	if p.Hedge.Enabled {
		refs = append(refs, p.Hedge.Budget)
	}
	for _, ref := range refs {
		if part := "budget " + ref.Name; s.config.Budgets[ref.Name].Scope == ScopeShared && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if p.Circuit.Kind != "" && p.Circuit.Scope == ScopeShared {
		parts = append(parts, "circuit")
	}
	if p.Limit.Active() && p.Limit.Scope == ScopeShared {
		parts = append(parts, "limit")
	}
	return parts
}

// Queues returns a copy of the document's queues by name.
func (s *Set) Queues() map[string]Queue { return maps.Clone(s.config.Queues) }

// Codec returns how the payloads and outputs of a queue's jobs are stored.
func (s *Set) Codec(queue string) Codec { return s.config.Queues[queue].Codec }

// Limits returns the limits of the jobs of every queue and type that the document names, also of those without limits.
func (s *Set) Limits() []LimitScope { return slices.Clone(s.config.Limits) }

// Consumer returns a consumer by name.
func (s *Set) Consumer(name string) (Consumer, bool) {
	c, ok := s.config.Consumers[name]
	return c, ok
}

// Producer returns a producer by name.
func (s *Set) Producer(name string) (Producer, bool) {
	p, ok := s.config.Producers[name]
	return p, ok
}
