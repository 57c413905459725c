package observe

import (
	"cmp"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// OtherLabel is the metric label for every value outside of a bounded set.
const OtherLabel = "other"

// DefaultMaxKeys is the number of keys that exporters label individually by default.
const DefaultMaxKeys = 500

// PerKey holds a value of a metrics exporter for each of a bounded number of keys. All further keys share one value, labelled
// "other", and the first of them is logged once as a warning. Values are never dropped. Make a PerKey with [NewPerKey]. It is
// safe for concurrent use, and reads neither lock nor allocate.
type PerKey[T any] struct {
	limit  int
	create func(label string) T
	other  func() T
	warn   sync.Once

	values atomic.Pointer[map[policy.Key]T] // replaced, never changed
	mu     sync.Mutex                       // serialises replacements
}

// NewPerKey returns a PerKey for limit keys; 0 and less take [DefaultMaxKeys]. The function makes the value of a key from
// its label: the key's text in valid UTF-8.
func NewPerKey[T any](limit int, create func(label string) T) *PerKey[T] {
	argument.Need(create != nil, "observe: NewPerKey: the function")
	limit = cmp.Or(max(limit, 0), DefaultMaxKeys)
	p := &PerKey[T]{limit: limit, create: create, other: sync.OnceValue(func() T { return create(OtherLabel) })}
	p.values.Store(&map[policy.Key]T{})
	return p
}

// Get returns the value of the key.
func (p *PerKey[T]) Get(key policy.Key) T {
	values := *p.values.Load()
	if v, ok := values[key]; ok {
		return v
	}
	if len(values) >= p.limit {
		return p.overflow(key)
	}
	return p.add(key)
}

func (p *PerKey[T]) add(key policy.Key) T {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Not reached in tests: another goroutine adds this key, or the last that fits, after Get has looked.
	values := *p.values.Load()
	if v, ok := values[key]; ok {
		return v
	}
	if len(values) >= p.limit {
		return p.overflow(key)
	}
	v := p.create(strings.ToValidUTF8(key.String(), "\uFFFD"))
	values = maps.Clone(values)
	values[key] = v
	p.values.Store(&values)
	return v
}

func (p *PerKey[T]) overflow(key policy.Key) T {
	p.warn.Do(func() {
		slog.Warn("tenet: too many keys for metrics, further keys are counted as \"other\"; keys must name operations, not requests",
			"max_keys", p.limit, LogKey, key.String())
	})
	return p.other()
}

// ReasonLabel returns the reason as a metric label: one of [policy.Reasons], or "other".
func ReasonLabel(r policy.Reason) string {
	if r.Known() {
		return string(r)
	}
	return OtherLabel
}

// OutcomeLabel returns the kind of an outcome as a metric label: one of the kinds of package classify, or "other".
func OutcomeLabel(k classify.Kind) string {
	if k > classify.Abort {
		return OtherLabel
	}
	return k.String()
}

// SurfaceLabel returns the surface as a metric label: call, job, step or "other".
func SurfaceLabel(s policy.Surface) string {
	switch s {
	case policy.SurfaceCall, policy.SurfaceJob, policy.SurfaceStep:
		return string(s)
	}
	return OtherLabel
}

// CircuitLevel returns a breaker's state as a gauge value: 0 closed, 1 half open, 2 open. It returns false for any other text.
func CircuitLevel(state string) (int, bool) {
	switch state {
	case "closed":
		return 0, true
	case "half_open":
		return 1, true
	case "open":
		return 2, true
	}
	return 0, false
}
