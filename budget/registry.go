package budget

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// Registry finds budgets by name. They come from code ([Registry.Register]) and from one document at a time
// ([Registry.Apply]); where both use a name, code wins. Safe for concurrent use.
// The zero value is empty and ready for use.
type Registry struct {
	version atomic.Uint64
	hub     *sharing.Hub  // nil where nothing is shared
	world   virtual.World // nil outside of a simulation

	mu       sync.RWMutex // guards what follows, and writes of version
	code     map[string]Budget
	document map[string]Budget
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// NewSharedRegistry makes an empty registry whose document may have budgets of shared scope. The caller closes the hub.
func NewSharedRegistry(hub *sharing.Hub) *Registry { return &Registry{hub: hub} }

// NewRegistryIn makes an empty registry whose document's budgets take the time from a simulation; see package simulate.
func NewRegistryIn(w virtual.World) *Registry { return &Registry{world: w} }

// Version changes whenever a name may refer to another budget than before.
func (r *Registry) Version() uint64 { return r.version.Load() }

// Register adds a budget under a name. It returns an error for an empty name, a nil budget, and a name that code has
// registered already.
func (r *Registry) Register(name string, b Budget) error {
	if name == "" {
		return errors.New("budget: register: the name is empty; use the name that policies refer to")
	}
	if b == nil {
		return fmt.Errorf("budget: register %q: the budget is nil", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.code[name]; taken {
		return fmt.Errorf("budget: register %q: the name is taken; register each budget once", name)
	}
	if r.code == nil {
		r.code = map[string]Budget{}
	}
	r.code[name] = b
	r.version.Add(1)
	return nil
}

// Get returns the budget of a name.
func (r *Registry) Get(name string) (Budget, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if b, ok := r.code[name]; ok {
		return b, true
	}
	b, ok := r.document[name]
	return b, ok
}

// Names lists the names of all budgets, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(r.document)), maps.Keys(r.code))
	slices.Sort(names)
	return slices.Compact(names)
}

// Apply replaces the budgets of the previous document by those of a new one. A budget of the same kind keeps its tokens, up to
// the new capacity or burst; other budgets start full; those that the document no longer names are removed. Budgets
// registered in code are not touched. A budget of shared scope joins the registry's hub; without one, it counts for this process only.
//
// If any description breaks a rule, Apply changes nothing and returns an error that lists all of them.
func (r *Registry) Apply(budgets map[string]policy.Budget) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		if name == "" {
			errs = append(errs, errors.New("budget: a budget of the document has no name; give it one"))
		} else if err := budgets[name].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("budgets.%s: budget: %w", name, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	made := make(map[string]Budget, len(budgets))
	for name, b := range budgets {
		b = r.scoped(b.Normalize())
		if old := r.document[name]; reuse(old, b) {
			made[name] = old
		} else {
			made[name] = r.make(name, b)
		}
	}
	for name, old := range r.document {
		if made[name] != old {
			leave(old)
		}
	}
	r.document = made
	r.version.Add(1)
	return nil
}

// scoped returns the budget as this registry can make it.
func (r *Registry) scoped(b policy.Budget) policy.Budget {
	if r.hub == nil {
		b.Scope = policy.ScopeProcess
	}
	return b
}

// make makes the budget of a valid description.
func (r *Registry) make(name string, b policy.Budget) Budget {
	if b.Scope == policy.ScopeShared {
		return newShared(r.hub, name, b)
	}
	if r.world != nil && b.Kind == policy.BudgetTokenBucket {
		return newTokenBucket(r.world, b.Capacity, b.RefillPerSecond)
	}
	made, err := New(b)
	if err != nil {
		panic(err) // Apply has validated it
	}
	return made
}

// leave gives back the part of a budget that is no longer in use.
func leave(b Budget) {
	if b, ok := b.(*shared); ok {
		b.lot.Leave()
	}
}

// reuse updates a budget to its new description if the kinds and scopes agree.
func reuse(old Budget, b policy.Budget) bool {
	isShared := b.Scope == policy.ScopeShared
	switch old := old.(type) {
	case *TokenBucket:
		if b.Kind == policy.BudgetTokenBucket && !isShared {
			old.update(b.Capacity, b.RefillPerSecond)
			return true
		}
	case *RetryRatio:
		if b.Kind == policy.BudgetRetryRatio && !isShared {
			old.update(b.Ratio, b.Burst)
			return true
		}
	case *shared:
		if b.Kind == old.kind && isShared {
			old.lot.SetTerms(terms(b))
			return true
		}
	}
	return false
}
