package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/internal/fields"
)

// JobLimit bounds the jobs of a queue or type over all workers of a store: how many run at a time, and how many start per
// period. Jobs with the same key values share a bucket, and each bucket has the whole limit.
type JobLimit struct {
	// Name of the limit, unique in its queue or type. Letters, digits, dots, hyphens and underscores, at most 64.
	Name string `json:"name"`
	// Key lists the fields that divide the jobs into buckets: queue, type, meta.NAME and payload.FIELD. Default: one bucket.
	Key []string `json:"key"`
	// Concurrency is how many jobs of a bucket run at a time. Default: no bound.
	Concurrency int `json:"concurrency" check:"min=1,max=1000000"`
	// Rate bounds how many jobs of a bucket start per period.
	Rate Rate `json:"rate" check:"null"`
	// Order is priority (by priority, then run_at) or strict (in the order of enqueueing, retries included). Default priority.
	Order JobOrder `json:"order"`
}

// JobOrder is the order in which the waiting jobs of a bucket go on.
type JobOrder string

// The orders.
const (
	OrderPriority JobOrder = "priority" // by priority, then run_at; others pass a job that waits for its retry
	OrderStrict   JobOrder = "strict"   // in the order of enqueueing; a job keeps its place until it has finished
)

// Values lists the orders.
func (JobOrder) Values() []string { return []string{string(OrderPriority), string(OrderStrict)} }

// LimitScope holds the limits that a document gives to the jobs of a queue or of a type.
type LimitScope struct {
	Queue, Type string // one of them is set
	Limits      []JobLimit
}

// Bounds of job limits.
const (
	maxLimitName  = 64
	maxLimitKey   = 8   // fields
	maxLimitField = 256 // bytes
	maxJobLimits  = 16  // of a queue or type
)

// Normalize returns the limit with its defaults: a rate per second with a burst of its count, order priority.
func (l JobLimit) Normalize() JobLimit {
	if l.Rate.Count > 0 {
		note := notes{&Meta{}}
		bounded := Limit{Rate: l.Rate}
		note.limit("", &bounded)
		l.Rate = bounded.Rate
	}
	l.Order = cmp.Or(l.Order, OrderPriority)
	l.Key = slices.Clone(l.Key)
	return l
}

// Validate is the strict reading: a *ValidationError with every violation, or nil.
func (l JobLimit) Validate() error {
	var v violations
	v.jobLimit("", l)
	return v.err()
}

// jobLimits checks the limits of a queue or type.
func (v *violations) jobLimits(list []JobLimit) {
	if len(list) > maxJobLimits {
		v.add("limits", fmt.Sprintf("%d limits, above the maximum of %d", len(list), maxJobLimits), "merge or remove some")
		return
	}
	for i, l := range list {
		path := fmt.Sprintf("limits[%d]", i)
		v.jobLimit(path, l)
		if l.Name != "" && slices.ContainsFunc(list[:i], func(other JobLimit) bool { return other.Name == l.Name }) {
			v.add(path+".name", fmt.Sprintf("%q is given twice", l.Name), "give each limit its own name")
		}
	}
}

func (v *violations) jobLimit(path string, l JobLimit) {
	v.ranges(path, reflect.ValueOf(l))
	at := func(field string) string { return fields.Join(path, field) }
	switch {
	case l.Name == "":
		v.add(at("name"), "missing", "name the limit")
	case len(l.Name) > maxLimitName || strings.ContainsFunc(l.Name, func(r rune) bool { return !plainName(r) }):
		v.add(at("name"), fmt.Sprintf("%q is not a name", l.Name), fmt.Sprintf("use letters, digits, dots, hyphens and underscores, at most %d", maxLimitName))
	}
	if len(l.Key) > maxLimitKey {
		v.add(at("key"), fmt.Sprintf("%d fields, above the maximum of %d", len(l.Key), maxLimitKey), "use fewer fields")
	}
	for i, field := range l.Key {
		if problem, remedy := keyProblem(field); problem != "" {
			v.add(fmt.Sprintf("%s[%d]", at("key"), i), problem, remedy)
		} else if slices.Contains(l.Key[:i], field) {
			v.add(fmt.Sprintf("%s[%d]", at("key"), i), fmt.Sprintf("%q is given twice", field), "keep one of the two")
		}
	}
	switch {
	case l.Rate.Count == 0 && l.Rate != (Rate{}):
		v.add(at("rate.count"), "missing", "say how many jobs may start per period")
	case l.Concurrency == 0 && l.Rate.Count == 0:
		v.add(at("concurrency"), "missing, and there is no rate", "give concurrency, rate or both")
	}
	if l.Order == OrderStrict && l.Concurrency != 1 {
		v.add(at("order"), fmt.Sprintf("strict needs concurrency 1, not %d", l.Concurrency), "write concurrency: 1, or order: priority")
	}
}

func plainName(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r)
}

// keyProblem returns what is wrong with a field of a key.
func keyProblem(field string) (problem, remedy string) {
	const known = "write queue, type, meta.NAME or payload.FIELD"
	name, path, nested := strings.Cut(field, ".")
	switch {
	case len(field) > maxLimitField:
		return fmt.Sprintf("%d bytes, above the maximum of %d", len(field), maxLimitField), "use a shorter name"
	case field == "queue", field == "type":
		return "", ""
	case name != "meta" && name != "payload":
		return fmt.Sprintf("unknown field %q", field), known
	case !nested || path == "" || name == "payload" && slices.Contains(strings.Split(path, "."), ""):
		return fmt.Sprintf("%q lacks a name after a dot", field), known
	}
	return "", ""
}
