package policyfile

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policy"
)

// maxPairs is the maximum number of policies for pairs of queues and job types.
const maxPairs = 10_000

// Steps of pipelines in the order of their work.
var (
	consumerSteps = []string{"fetch", "process", "success", "exception"}
	producerSteps = []string{"produce", "success", "exception"}
)

// compiler checks the merged policy of every key that a document names and collects them for the set.
type compiler struct {
	*reader
	root    map[string]any
	source  policy.Source
	limits  map[policy.Surface]policy.Limits
	broken  map[string]bool // paths whose values were left out
	drafts  []policy.Policy // merged and checked, one for each key
	bases   map[policy.Surface]policy.Policy
	levels  map[policy.Key][]string     // where each key's policy is, the most specific level first
	surface map[policy.Surface][]string // the same for keys that the document does not name
	parts   policy.SetConfig
}

// complaint identifies a violation, so that a violation in the defaults is reported once and not for every entry.
type complaint struct{ path, problem string }

type complaints map[complaint]bool

// compile merges and checks everything that the document names. The set can be built if no faults were found.
func compile(r *reader, root map[string]any, o Options) *compiler {
	c := &compiler{
		reader: r, root: root, source: o.Source, broken: maps.Clone(r.faults.bad),
		limits: map[policy.Surface]policy.Limits{}, bases: map[policy.Surface]policy.Policy{},
		levels: map[policy.Key][]string{}, surface: map[policy.Surface][]string{},
	}
	for path := range r.faults.bad { // a limit without a bound is no second fault where its bound is at fault, or perhaps misspelt
		item, field, listed := strings.Cut(path, "].")
		if listed && field != "name" && field != "order" && !strings.HasPrefix(field, "key") {
			c.broken[item+"].concurrency"] = true
		}
	}
	for surface, name := range map[policy.Surface]string{policy.SurfaceCall: "calls", policy.SurfaceJob: "jobs", policy.SurfaceStep: "steps"} {
		limits, found := o.limits(surface).Tighten(as[policy.Tightening](object(object(root, "limits"), name)))
		c.limits[surface] = limits
		c.judge([]level{{path: "limits." + name}}, found, nil)
	}
	c.drafts = make([]policy.Policy, 0, len(object(root, "policies"))) // a draft is large, and growing copies them all
	c.budgets()
	c.calls()
	c.jobs()
	c.pipelines()
	return c
}

// judge reports violations of what levels merge to. A violation that the defaults have too (inherited) was reported
// there, unless the most specific level repeats it in its own words; one that was reported for the same levels apart is
// not reported for their combination.
func (c *compiler) judge(levels []level, found []policy.Violation, inherited complaints, reported ...complaints) complaints {
	all := complaints{}
	own := levels[0].path
	for _, v := range found {
		this := complaint{v.Path, v.Problem}
		all[this] = true
		path, at, given := find(c.fields, own, v.Path)
		if !given && inherited[this] || slices.ContainsFunc(reported, func(known complaints) bool { return known[this] }) {
			continue
		}
		if !given {
			path = fields.Join(own, v.Path)
			at = around(c.fields, path)
		}
		switch {
		case v.Warning && c.clamped[path]: // has a warning already
		case v.Warning:
			c.faults.warn(at.value, path, v.Problem, v.Remedy)
		case !c.isBroken(levels, v.Path):
			c.faults.add(at.value, path, v.Problem, v.Remedy)
		}
	}
	return all
}

// isBroken reports whether a value at path, or the item of a list around it, was left out of any level because it is itself at fault.
func (c *compiler) isBroken(levels []level, path string) bool {
	item := path[:strings.LastIndexByte(path, ']')+1]
	return slices.ContainsFunc(levels, func(l level) bool {
		return c.broken[fields.Join(l.path, path)] || item != "" && c.broken[fields.Join(l.path, item)]
	})
}

// around returns the innermost field of the document that contains path.
func around(known map[string]field, path string) field {
	for {
		if f, ok := known[path]; ok {
			return f
		}
		dot := strings.LastIndexByte(path, '.')
		if dot < 0 {
			return field{}
		}
		path = path[:dot]
	}
}

// draft merges levels into the policy of a key and checks it.
func (c *compiler) draft(key policy.Key, levels []level, inherited complaints, reported ...complaints) complaints {
	p, found := c.merged(key.Surface(), levels, inherited, reported...)
	p.Key = key
	c.drafts = append(c.drafts, p)
	c.levels[key] = paths(levels)
	return found
}

// base does the same for keys that the document does not name.
func (c *compiler) base(surface policy.Surface, defaults level) complaints {
	p, found := c.merged(surface, []level{defaults}, nil)
	c.bases[surface] = p
	c.surface[surface] = paths([]level{defaults})
	return found
}

func (c *compiler) merged(s policy.Surface, levels []level, inherited complaints, reported ...complaints) (policy.Policy, complaints) {
	limits := c.limits[s]
	values := overlay(catalogRow(levels), levels...)
	p := as[policy.Policy](settleRetry(values, limits))
	if timeout, given := object(values, "retry")["timeout"]; given && timeout == nil {
		p.Meta.None = []string{"retry.timeout"}
	}
	return p, c.judge(levels, append(replacedZeros(values, limits), p.Check(limits)...), inherited, reported...)
}

func paths(levels []level) []string {
	return lists.Map(levels, func(l level) string { return l.path })
}

func (c *compiler) defaults(name string) level {
	return level{path: "defaults." + name, values: object(object(c.root, "defaults"), name)}
}

func (c *compiler) budgets() {
	c.parts.Budgets = map[string]policy.Budget{}
	for name, values := range entries(c.root, "budgets") {
		b := as[policy.Budget](values)
		c.judge([]level{{path: EntryPath("budgets", name)}}, b.Check(), nil)
		c.parts.Budgets[name] = b.Normalize()
	}
}

func (c *compiler) calls() {
	defaults := c.defaults("calls")
	inherited := c.base(policy.SurfaceCall, defaults)
	for name, values := range entries(c.root, "policies") {
		c.draft(policy.ParseKey(name), []level{{path: EntryPath("policies", name), values: values}, defaults}, inherited)
	}
}

// catalogRow returns the row of the category that the most specific level names, as a document's values, or nil.
func catalogRow(levels []level) map[string]any {
	var category policy.Category
	for _, l := range levels {
		if value, given := l.values["category"]; given {
			name, _ := value.(string) // null is explicitly none
			category = policy.Category(name)
			break
		}
	}
	row, known := category.Policy()
	if !known {
		return nil
	}
	return map[string]any{"retry": map[string]any{
		"max_attempts":       float64(row.MaxAttempts),
		"backoff":            row.InitialBackoff.Seconds(),
		"backoff_cap":        row.MaxBackoff.Seconds(),
		"backoff_multiplier": row.BackoffMultiplier,
		"jitter":             string(row.Jitter),
		"jitter_factor":      row.JitterFactor,
		"timeout":            row.TimeoutPerAttempt.Seconds(),
	}}
}

func (c *compiler) jobs() {
	if queues, types := object(c.root, "queues"), object(c.root, "jobs"); len(queues)*len(types) > maxPairs {
		c.faults.add(c.fields["queues"].key, "queues",
			fmt.Sprintf("%d queues and %d job types make more than %d policies", len(queues), len(types), maxPairs), "split the document")
		return
	}
	own := c.defaults("jobs").values
	defaults := c.jobLevel("defaults.jobs", own)
	inherited := c.base(policy.SurfaceJob, defaults)
	c.parts.Queues = map[string]policy.Queue{}

	ofTypes := map[string]complaints{}
	typeLevels := map[string]level{}
	if _, given := own["limits"]; given {
		c.faults.add(c.fields["defaults.jobs.limits"].key, "defaults.jobs.limits", "a limit belongs to one queue or type", "write it under queues or jobs")
	}
	for name, values := range entries(c.root, "jobs") {
		typeLevels[name] = c.jobLevel(EntryPath("jobs", name), values)
		c.jobLimits(policy.LimitScope{Type: name}, typeLevels[name].path, values)
		ofTypes[name] = c.draft(policy.JobKey("", name), []level{typeLevels[name], defaults}, inherited)
	}
	for queue, values := range entries(c.root, "queues") {
		c.parts.Queues[queue] = as[policy.Queue](values)
		queueLevel := c.jobLevel(EntryPath("queues", queue), values)
		c.jobLimits(policy.LimitScope{Queue: queue}, queueLevel.path, values)
		ofQueue := c.draft(policy.JobKey(queue, ""), []level{queueLevel, defaults}, inherited)
		for name := range entries(c.root, "jobs") {
			levels := []level{typeLevels[name], queueLevel, defaults}
			c.draft(policy.JobKey(queue, name), levels, nil, ofQueue, ofTypes[name])
		}
	}
}

// jobLimits checks the limits of a queue or type, with the codec of a queue, and collects them.
func (c *compiler) jobLimits(scope policy.LimitScope, path string, values map[string]any) {
	given := as[policy.Queue](map[string]any{"limits": values["limits"], "codec": values["codec"]})
	c.judge([]level{{path: path}}, given.Check(c.limits[policy.SurfaceJob]), nil)
	for _, l := range given.Limits {
		scope.Limits = append(scope.Limits, l.Normalize())
	}
	c.parts.Limits = append(c.parts.Limits, scope)
}

// jobLevel checks that a job or queue sets nothing twice, and converts it to the form of a policy.
func (c *compiler) jobLevel(path string, values map[string]any) level {
	for _, name := range []string{"timeout", "budget"} {
		_, short := values[name]
		_, long := object(values, "retry")[name]
		if short && long {
			c.faults.add(c.fields[fields.Join(path, name)].key, fields.Join(path, name), "given twice, here and as retry."+name, "keep one of the two")
		}
	}
	return level{path: path, values: fold(values)}
}

func (c *compiler) pipelines() {
	defaults := c.defaults("steps")
	inherited := c.base(policy.SurfaceStep, defaults)
	limits := c.limits[policy.SurfaceStep]
	steps := func(path string, values map[string]any, names []string, key func(name, step string) policy.Key) {
		_, name, _ := strings.Cut(shown(path), ".")
		engine := level{path: path, values: map[string]any{}}
		if category, given := values["category"]; given { // the only field that steps take from their engine
			engine.values["category"] = category
		}
		for _, step := range names {
			own := level{path: fields.Join(path, "steps."+step), values: object(object(values, "steps"), step)}
			c.draft(key(name, step), []level{own, engine, defaults}, inherited)
		}
	}
	c.parts.Consumers = map[string]policy.Consumer{}
	for name, values := range entries(c.root, "consumers") {
		path := EntryPath("consumers", name)
		settled, found := settleEmptyQueue(values)
		consumer := as[policy.Consumer](settled)
		c.judge([]level{{path: path}}, append(found, policy.Consumer{Loop: consumer.Loop}.Check(limits)...), nil)
		steps(path, values, consumerSteps, policy.ConsumerKey)
		c.parts.Consumers[name] = consumer
	}
	c.parts.Producers = map[string]policy.Producer{}
	for name, values := range entries(c.root, "producers") {
		path := EntryPath("producers", name)
		producer := as[policy.Producer](values)
		c.judge([]level{{path: path}}, policy.Producer{Loop: producer.Loop}.Check(limits), nil)
		steps(path, values, producerSteps, policy.ProducerKey)
		c.parts.Producers[name] = producer
	}
}

// entries ranges over a field's objects in the order of their names.
func entries(root map[string]any, field string) iter.Seq2[string, map[string]any] {
	values := object(root, field)
	return func(yield func(string, map[string]any) bool) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if !yield(name, object(values, name)) {
				return
			}
		}
	}
}
