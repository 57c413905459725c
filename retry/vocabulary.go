package retry

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// vocabulary holds the names in policies that the executor can resolve. It is replaced as a whole.
type vocabulary struct {
	classifiers map[string]classify.Classifier
	families    classify.Set
	registered  map[string]bool // names given to Register
}

// Register adds a classifier, under a name that policies may use, and the classes of its errors, for all later calls.
// Classifiers and classes of the same names in [ExecutorOptions] win. Clients such as those of package tenethttp register
// their classifiers themselves; registering again costs a lookup. A nil classifier or function panics.
func (e *Executor) Register(name string, c classify.Classifier, classes classify.Family) {
	argument.Need(e != nil, "retry: the executor")
	if e.vocabulary.Load().registered[name] {
		return
	}
	argument.Need(c != nil, fmt.Sprintf("retry: Register: the classifier %q", name))
	argument.Need(classes.Of != nil, fmt.Sprintf("retry: Register: the function of the class family of %q", name))
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.vocabulary.Load()
	if old.registered[name] {
		return // not reached in tests: needs two goroutines that register the name at the same time
	}
	next := &vocabulary{classifiers: maps.Clone(old.classifiers), families: old.families, registered: maps.Clone(old.registered)}
	if next.classifiers[name] == nil {
		next.classifiers[name] = c
	}
	unknown := func(c policy.Class) bool { return !old.families.Has(c) }
	if slices.ContainsFunc(classes.Names, unknown) {
		next.families = append(slices.Clip(old.families), classes)
	}
	next.registered[name] = true
	e.vocabulary.Store(next)
	e.supplied.Add(1)
}

// reportMissing reports each name in a policy that is not registered, once. Without the name's class or classifier, the policy
// stops work that it means to retry.
func (e *Executor) reportMissing(p *plan) {
	const unmatched = "named by a policy but not registered with the executor, so errors do not match; see ExecutorOptions.Classes and Classifiers"
	for attribute, missing := range map[string]struct {
		reason policy.Reason
		detail string
	}{
		observe.AttrClassNotFound:      {policy.ReasonClassNotFound, unmatched},
		observe.AttrClassifierNotFound: {policy.ReasonClassifierNotFound, unmatched},
		observe.AttrNotShared:          {policy.ReasonNotShared, "of shared scope, but counts for this process only; see ExecutorOptions.Sharing"},
	} {
		names := p.attributes.Get(attribute)
		if names == "" {
			continue
		}
		problem := string(missing.reason) + " " + names
		e.mu.Lock()
		reported := e.missing[problem] || len(e.missing) >= e.options.MaxKeys
		if !reported {
			e.missing[problem] = true
		}
		e.mu.Unlock()
		if reported {
			continue
		}
		detail := strings.ReplaceAll(names, ",", ", ") + ": " + missing.detail
		e.report(context.Background(), observe.Work{Key: p.key, Surface: p.surface}, &observe.Report{Reason: missing.reason, Detail: detail})
		if e.options.Observer == nil {
			slog.Warn("tenet: "+detail, "key", p.key.String(), "reason", string(missing.reason))
		}
	}
}
