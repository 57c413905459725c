package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/policy"
)

// Limiter is implemented by stores that bound how many jobs of a key run at a time and how many start per period, over all
// workers. A job over its limit is [Waiting]; it is ready as soon as it has a place in the bucket of each of its limits.
type Limiter interface {
	// Limits returns the limits of the store, sorted by queue, type and name.
	Limits(ctx context.Context) ([]LimitState, error)
	// SetLimit stores an operator's setting, or removes it. It returns ErrNotFound for the removal of a setting that does not
	// exist.
	SetLimit(ctx context.Context, s LimitSetting) error
	// PublishLimits replaces what a document says about the limits of each of these queues and types. Others keep theirs.
	PublishLimits(ctx context.Context, scopes []policy.LimitScope) error
	// LimitUse returns the buckets in use of a limit, the fullest first, at most n. Reading it costs as much as the limit has
	// buckets in use.
	LimitUse(ctx context.Context, name LimitName, n int) (LimitUse, error)
}

// LimitName identifies a limit: its name is unique within its queue or type.
type LimitName struct {
	Queue string `json:"queue,omitempty"` // of the jobs that it bounds, or
	Type  string `json:"type,omitempty"`
	Name  string `json:"name"`
}

// String describes the limit.
func (n LimitName) String() string {
	if n.Type != "" {
		return fmt.Sprintf("limit %s of type %s", n.Name, n.Type)
	}
	return fmt.Sprintf("limit %s of queue %s", n.Name, n.Queue)
}

// Bounds reports whether the limit is of a job's queue or type.
func (n LimitName) Bounds(r *Record) bool {
	return n.Type == "" && n.Queue == r.Queue || n.Queue == "" && n.Type == r.Type
}

// WaitedLimit returns the limit that the waits_for of a job names, and the key of the bucket. ok is false if it is not in the list.
func WaitedLimit(list []LimitName, waitsFor string) (name LimitName, key string, ok bool) {
	for _, n := range list {
		text := n.String()
		of, cut := strings.CutPrefix(waitsFor, text+", ")
		if (cut || waitsFor == text) && (!ok || len(text) > len(name.String())) {
			if name, key, ok = n, "", true; cut {
				key = of
			}
		}
	}
	return name, key, ok
}

// compare orders limits by queue, type and name.
func (n LimitName) compare(other LimitName) int {
	return cmp.Or(cmp.Compare(n.Queue, other.Queue), cmp.Compare(n.Type, other.Type), cmp.Compare(n.Name, other.Name))
}

// LimitSetting is what an operator says about a limit. It stands above what documents say.
type LimitSetting struct {
	LimitName
	Limit *policy.JobLimit // under the same name; nil for none
	Off   bool             // there is no such limit, whatever documents say
	// With neither Limit nor Off the setting is removed, and documents apply again.
}

// Check returns an error that names the field and the remedy, or nil.
func (s LimitSetting) Check() error {
	switch {
	case (s.Queue == "") == (s.Type == ""):
		return &LimitError{Field: "queue", Problem: "a limit belongs to one queue or to one type; name one of them"}
	case textProblem(s.Queue, maxQueueBytes) != "":
		return &LimitError{Field: "queue", Problem: textProblem(s.Queue, maxQueueBytes)}
	case textProblem(s.Type, maxTypeBytes) != "":
		return &LimitError{Field: "type", Problem: textProblem(s.Type, maxTypeBytes)}
	case s.Limit != nil && s.Off:
		return &LimitError{Field: "off", Problem: "a limit that is off has no values; give one of the two"}
	}
	named := policy.JobLimit{Name: s.Name, Concurrency: 1}
	if s.Limit != nil {
		named = *s.Limit
		named.Name = s.Name
	}
	if err := named.Validate(); err != nil {
		return fmt.Errorf("job: limit: %w", err)
	}
	return nil
}

// LimitError reports a field of a limit that cannot be stored.
type LimitError struct{ Field, Problem string }

// Error implements error.
func (e *LimitError) Error() string { return fmt.Sprintf("job: limit: %s: %s", e.Field, e.Problem) }

// LimitState is what a store knows about a limit.
type LimitState struct {
	LimitName
	Document *policy.JobLimit `json:"document,omitempty"` // what the document last published says; nil for nothing
	Setting  *policy.JobLimit `json:"setting,omitempty"`  // an operator's, which stands above the document's
	Off      bool             `json:"off,omitempty"`      // an operator has switched the limit off
}

// InForce returns the limit that holds, or nil for none.
func (s LimitState) InForce() *policy.JobLimit {
	switch {
	case s.Off:
		return nil
	case s.Setting != nil:
		return s.Setting
	}
	return s.Document
}

// FindLimit returns what a store knows about a limit; only the name for one that it does not know.
func FindLimit(ctx context.Context, l Limiter, name LimitName) (LimitState, error) {
	list, err := l.Limits(ctx)
	if i := slices.IndexFunc(list, func(s LimitState) bool { return s.LimitName == name }); i >= 0 {
		return list[i], err
	}
	return LimitState{LimitName: name}, err
}

// Source says where the limit in force comes from: "setting" or "document".
func (s LimitState) Source() string {
	if s.Off || s.Setting != nil {
		return "setting"
	}
	return "document"
}

// LimitUse shows the buckets of a limit that have jobs which are ready, running or waiting.
type LimitUse struct {
	Buckets int         `json:"buckets"`
	Held    int         `json:"held"`    // places of ready and running jobs, and those that jobs keep through a retry
	Waiting int         `json:"waiting"` // jobs that wait for this limit
	Blocked int         `json:"blocked"` // buckets for which jobs wait
	Fullest []BucketUse `json:"fullest"`
}

// BucketUse is the use of a bucket.
type BucketUse struct {
	Key     string `json:"key"` // the fields of the key and their values, in the grammar of filters; "" for a limit without a key
	Held    int    `json:"held"`
	Waiting int    `json:"waiting"`
}

// Add counts a bucket.
func (u *LimitUse) Add(b *Bucket, n int) {
	u.Buckets, u.Held, u.Waiting = u.Buckets+1, u.Held+b.Held, u.Waiting+b.Waiting
	if b.Waiting > 0 {
		u.Blocked++
	}
	_, key := splitBucket(b.Name)
	u.Fullest = append(u.Fullest, BucketUse{Key: key, Held: b.Held, Waiting: b.Waiting})
	if len(u.Fullest) > 2*n+100 {
		u.Cut(n)
	}
}

// Cut leaves the n fullest buckets, the one with the most jobs first.
func (u *LimitUse) Cut(n int) {
	slices.SortFunc(u.Fullest, func(a, b BucketUse) int {
		return cmp.Or(cmp.Compare(b.Held+b.Waiting, a.Held+a.Waiting), cmp.Compare(a.Key, b.Key))
	})
	u.Fullest = u.Fullest[:min(len(u.Fullest), max(n, 0))]
}

// StoredLimit is a limit with the ID under which the store keeps its buckets.
type StoredLimit struct {
	ID int64
	LimitState
}

// LimitChanges are what a setting or a document changes in the limits of a store. A limit whose key, order or kind of bound
// changes gets a new ID, so that its old buckets are told apart.
type LimitChanges struct {
	Put  []StoredLimit // to be stored in place of those with the same name
	Drop []LimitName   // to be removed
	// Gate lists the limits whose jobs, if they are waiting, ready or running, must be given their buckets again: other ones, or the
	// same ones with fewer places.
	Gate []LimitName
	// Touch lists the limits with other numbers: their buckets may have more room.
	Touch []int64
}

// storedLimit returns the limit of a name, and only the name for one that the store does not have.
func storedLimit(limits []StoredLimit, name LimitName) (l StoredLimit, found bool) {
	if i := slices.IndexFunc(limits, func(l StoredLimit) bool { return l.LimitName == name }); i >= 0 {
		return limits[i], true
	}
	return StoredLimit{LimitState: LimitState{LimitName: name}}, false
}

// ApplySetting works out what an operator's setting changes.
func ApplySetting(old []StoredLimit, s LimitSetting, next func() int64) (c LimitChanges, err error) {
	was, _ := storedLimit(old, s.LimitName)
	is := was
	is.Setting, is.Off = nil, s.Off
	if s.Limit != nil {
		limit := *s.Limit
		limit.Name = s.Name
		limit = limit.Normalize()
		is.Setting = &limit
	}
	if is.Setting == nil && !is.Off && was.Setting == nil && !was.Off {
		return c, fmt.Errorf("%s has no setting: %w", s.LimitName, ErrNotFound)
	}
	c.add(was, is, next)
	return c, nil
}

// ApplyDocument works out what a document changes.
func ApplyDocument(old []StoredLimit, scopes []policy.LimitScope, next func() int64) (c LimitChanges) {
	for _, scope := range scopes {
		named := map[string]bool{}
		for _, l := range scope.Limits {
			named[l.Name] = true
			limit := l.Normalize()
			was, _ := storedLimit(old, LimitName{Queue: scope.Queue, Type: scope.Type, Name: l.Name})
			is := was
			is.Document = &limit
			c.add(was, is, next)
		}
		for _, was := range old {
			if was.Queue == scope.Queue && was.Type == scope.Type && was.Document != nil && !named[was.Name] {
				is := was
				is.Document = nil
				c.add(was, is, next)
			}
		}
	}
	return c
}

// add notes a change of one limit.
func (c *LimitChanges) add(was, is StoredLimit, next func() int64) {
	before, after := was.InForce(), is.InForce()
	if sameLimit(was.Document, is.Document) && sameLimit(was.Setting, is.Setting) && was.Off == is.Off {
		return
	}
	switch {
	case before == nil && after == nil:
	case before != nil && after != nil && bucketsOf(*before) == bucketsOf(*after):
		c.Touch = append(c.Touch, is.ID)
		if lower(*after, *before) {
			c.Gate = append(c.Gate, is.LimitName)
		}
	default:
		is.ID = next()
		c.Gate = append(c.Gate, is.LimitName)
	}
	if is.Document == nil && is.Setting == nil && !is.Off {
		c.Drop = append(c.Drop, is.LimitName)
		return
	}
	if is.ID == 0 {
		is.ID = next()
	}
	c.Put = append(c.Put, is)
}

// Apply returns the limits after the changes, sorted.
func (c *LimitChanges) Apply(old []StoredLimit) []StoredLimit {
	list := slices.DeleteFunc(slices.Clone(old), func(l StoredLimit) bool {
		return slices.Contains(c.Drop, l.LimitName) || slices.ContainsFunc(c.Put, func(p StoredLimit) bool { return p.LimitName == l.LimitName })
	})
	list = append(list, c.Put...)
	slices.SortFunc(list, func(a, b StoredLimit) int { return a.compare(b.LimitName) })
	return list
}

func sameLimit(a, b *policy.JobLimit) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Key, b.Key) && a.Name == b.Name && a.Concurrency == b.Concurrency && a.Rate == b.Rate && a.Order == b.Order
}

// bucketsOf tells apart the limits whose jobs need other buckets.
func bucketsOf(l policy.JobLimit) string {
	return fmt.Sprintf("%q %v %v", l.Key, l.Order, l.Rate.Count > 0)
}

// lower reports whether a limit is lower than another one in any of its numbers.
func lower(a, b policy.JobLimit) bool {
	return a.Concurrency > 0 && (b.Concurrency == 0 || a.Concurrency < b.Concurrency) ||
		a.Rate.Burst < b.Rate.Burst || float64(a.Rate.Count)*float64(b.Rate.Per) < float64(b.Rate.Count)*float64(a.Rate.Per)
}
