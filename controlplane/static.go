package controlplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tenetdev/tenet/policy"
)

// NewStatic makes a provider of policies given in code. Keys that policies does not contain get a copy of fallback under
// their own key or, if fallback is nil or empty, the built-in default; a missing policy is never an error.
//
// Policies are normalised once, each under the built-in limits of its key's surface. The error names every policy that
// cannot be normalised. Later changes of the arguments have no effect.
func NewStatic(policies map[policy.Key]policy.Policy, fallback *policy.Policy) (*policy.Set, error) {
	config := policy.SetConfig{Source: policy.SourceStatic, Policies: make(map[policy.Key]*policy.Policy, len(policies))}
	var faults []error
	compile := func(p policy.Policy, s policy.Surface, what string) *policy.Policy {
		compiled, err := policy.Compile(p, policy.LimitsFor(s), policy.SourceStatic)
		if err != nil {
			faults = append(faults, fmt.Errorf("controlplane: %s: %w", what, err))
		}
		return compiled
	}
	for _, key := range slices.SortedFunc(maps.Keys(policies), compareKeys) {
		p := policies[key]
		p.Key = key
		config.Policies[key] = compile(p, key.Surface(), key.String())
	}
	if fallback != nil && !fallback.IsZero() {
		config.Calls = compile(*fallback, policy.SurfaceCall, "fallback")
		config.Jobs = compile(*fallback, policy.SurfaceJob, "fallback for jobs")
		config.Steps = compile(*fallback, policy.SurfaceStep, "fallback for steps")
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return policy.NewSet(config), nil
}

func compareKeys(a, b policy.Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
