package documents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// Current returns the policies of the revision that is in force. It returns policystore.ErrNotFound for a document that does
// not exist or has none.
func (s *Service) Current(ctx context.Context, name string) (*policy.Set, error) {
	state, err := s.store.Document(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.Set(ctx, name, state.Current)
}

// Set returns the policies of a revision. It returns policystore.ErrNotFound if the revision does not exist.
func (s *Service) Set(ctx context.Context, name string, number int64) (*policy.Set, error) {
	d, _, err := s.revision(ctx, name, number)
	if err != nil {
		return nil, err
	}
	return d.Set, nil
}

// Rules lists what a revision says, each field with its value and where the value was taken from. It returns
// policystore.ErrNotFound if the revision does not exist.
func (s *Service) Rules(ctx context.Context, name string, number int64) ([]api.Rule, error) {
	d, _, err := s.revision(ctx, name, number)
	if err != nil {
		return nil, err
	}
	keys := append(d.Set.Keys(), policy.Key{Name: "*"}, policy.JobKey("*", "*"), policy.ConsumerKey("*", "*"))
	order := []policy.Surface{policy.SurfaceCall, policy.SurfaceJob, policy.SurfaceStep}
	slices.SortStableFunc(keys, func(a, b policy.Key) int { return slices.Index(order, a.Surface()) - slices.Index(order, b.Surface()) })
	var list []api.Rule
	for _, key := range keys {
		p, err := d.Set.Policy(ctx, key)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		list = append(list, api.Rule{Kind: string(key.Surface()), Name: key.String(), Title: title(key), Values: d.Values(p), Policy: raw})
	}
	return append(list, others(d)...), nil
}

// title says in words what a key stands for.
func title(k policy.Key) string {
	surface, engine, _ := strings.Cut(k.Namespace, "/")
	switch {
	case k.Name == "*" && k.Surface() == policy.SurfaceStep:
		return "steps of other pipelines"
	case k.Name == "*":
		return "other " + string(k.Surface()) + "s"
	case k.Surface() == policy.SurfaceCall:
		return k.String()
	case k.Surface() == policy.SurfaceStep:
		return k.Name + " of " + surface + " " + engine
	case engine == "":
		return k.Name + " in other queues"
	case k.Name == "":
		return "other types in queue " + engine
	}
	return k.Name + " in queue " + engine
}

// others lists the values that belong to no key's policy.
func others(d *policyfile.Document) (list []api.Rule) {
	add := func(kind, name, path string, object any) {
		if values := d.ValuesAt(path, object); len(values) > 0 {
			list = append(list, api.Rule{Kind: kind, Name: name, Title: kind + " " + name, Values: values})
		}
	}
	queues, budgets := d.Set.Queues(), d.Set.Budgets()
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		add("queue", name, policyfile.EntryPath("queues", name), struct {
			Concurrency int `json:"concurrency"`
		}{queues[name].Concurrency})
	}
	for _, key := range d.Set.Keys() {
		surface, name, _ := strings.Cut(key.Namespace, "/")
		if c, ok := d.Set.Consumer(name); ok && key == policy.ConsumerKey(name, "process") {
			add(surface, name, policyfile.EntryPath("consumers", name)+".loop", c.Loop)
		}
		if p, ok := d.Set.Producer(name); ok && key == policy.ProducerKey(name, "produce") {
			add(surface, name, policyfile.EntryPath("producers", name)+".loop", p.Loop)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		add("budget", name, policyfile.EntryPath("budgets", name), budgets[name])
	}
	return list
}

// Check says what publishing a text would do, without publishing it. The faults of the text are part of the answer.
func (s *Service) Check(ctx context.Context, name string, body []byte) (api.Checked, error) {
	if err := protocol.CheckName(name); err != nil {
		return api.Checked{}, &InvalidError{Cause: err}
	}
	d, err := s.store.Document(ctx, name)
	if err != nil && !errors.Is(err, policystore.ErrNotFound) {
		return api.Checked{}, err
	}
	out := api.Checked{Revision: d.Newest + 1, Base: d.Current}
	parsed, err := s.parse(name, body)
	if invalid, ok := errors.AsType[*InvalidError](err); ok && len(invalid.Faults) > 0 {
		addFaults(&out, invalid.Faults)
		return out, nil
	}
	if err != nil {
		return out, err
	}
	faults, err := proved(parsed)
	if addFaults(&out, faults); err != nil || len(out.Faults) > 0 {
		return out, err
	}
	out.Hash = parsed.Set.Revision()
	before := ""
	if d.Current > 0 {
		old, r, err := s.revision(ctx, name, d.Current)
		before = string(r.Body)
		if err == nil {
			out.Fields, err = policyfile.Diff(old, parsed)
		}
		if _, invalid := errors.AsType[*InvalidError](err); err != nil && !invalid { // an older release may have taken it
			return out, err
		}
	}
	out.Text = udiff.Unified(fmt.Sprintf("%s revision %d", name, d.Current), fmt.Sprintf("%s revision %d", name, out.Revision), before, string(body))
	return out, nil
}

// addFaults adds faults, warnings included, to an answer.
func addFaults(out *api.Checked, faults []policyfile.Fault) {
	for _, f := range faults {
		if f.Warning {
			out.Warnings = append(out.Warnings, api.NewFault(f))
		} else {
			out.Faults = append(out.Faults, api.NewFault(f))
		}
	}
}
