package budget

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

// Registry finds budgets by name. They come from code ([Registry.Register]) and from one document at a time
// ([Registry.Apply]); where both use a name, code wins. Safe for concurrent use.
// The zero value is empty and ready for use.
type Registry struct {
	version atomic.Uint64

	mu       sync.RWMutex // guards what follows, and writes of version
	code     map[string]Budget
	document map[string]Budget
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{} }

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
// registered in code are not touched.
//
// If any description breaks a rule, Apply changes nothing and returns an error that lists all of them.
func (r *Registry) Apply(budgets map[string]policy.Budget) error {
	made := make(map[string]Budget, len(budgets))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		if name == "" {
			errs = append(errs, errors.New("budget: a budget of the document has no name; give it one"))
			continue
		}
		b, err := New(budgets[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("budgets.%s: %w", name, err))
			continue
		}
		made[name] = b
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, old := range r.document {
		if reuse(old, budgets[name].Normalize()) {
			made[name] = old
		}
	}
	r.document = made
	r.version.Add(1)
	return nil
}

// reuse updates a budget to its new description if the kinds agree. For a budget that the document dropped, the description is
// the zero value, whose kind never agrees.
func reuse(old Budget, b policy.Budget) bool {
	switch old := old.(type) {
	case *TokenBucket:
		if b.Kind == policy.BudgetTokenBucket {
			old.update(b.Capacity, b.RefillPerSecond)
			return true
		}
	case *RetryRatio:
		if b.Kind == policy.BudgetRetryRatio {
			old.update(b.Ratio, b.Burst)
			return true
		}
	}
	return false
}
