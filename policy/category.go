package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
)

// Category is a kind of operation with its own defaults and a stable code for audit events.
type Category string

// The catalog's categories.
const (
	NATSConnect          Category = "NATS_CONNECT"
	NATSPublish          Category = "NATS_PUBLISH"
	NATSSubscribe        Category = "NATS_SUBSCRIBE"
	NATSStreamCreate     Category = "NATS_STREAM_CREATE"
	KVCreate             Category = "KV_CREATE"
	KVGet                Category = "KV_GET"
	KVPut                Category = "KV_PUT"
	KVDelete             Category = "KV_DELETE"
	ExecutionIntent      Category = "EXECUTION_INTENT"
	ExecutionContainment Category = "EXECUTION_CONTAINMENT"
	ExecutionExpiration  Category = "EXECUTION_EXPIRATION"
	ApprovalCheck        Category = "APPROVAL_CHECK"
	ApprovalGrant        Category = "APPROVAL_GRANT"
	ReplayProcessing     Category = "REPLAY_PROCESSING"
	ReplayValidation     Category = "REPLAY_VALIDATION"
	APIRequest           Category = "API_REQUEST"
	APIValidation        Category = "API_VALIDATION"
)

const codePrefix = "RETRY_"

// ParseCategory finds the category with a name (NATS_PUBLISH) or code (RETRY_NATS_PUBLISH). If the catalog has neither, it
// returns its argument and false.
func ParseCategory(s string) (Category, bool) {
	name := Category(strings.TrimPrefix(s, codePrefix))
	if _, known := name.entry(); known {
		return name, true
	}
	return Category(s), false
}

// UnmarshalText reads a name or a code. It keeps an unknown one as it is, so that a check can report it.
func (c *Category) UnmarshalText(text []byte) error {
	*c, _ = ParseCategory(string(text))
	return nil
}

// Code returns the category's name in audit events, for example RETRY_NATS_PUBLISH. Codes are unique. The code of a category
// that is not in the catalog is "".
func (c Category) Code() string {
	name, known := ParseCategory(string(c))
	if !known {
		return ""
	}
	return codePrefix + string(name)
}

// Values lists the names of the catalog. Their codes are accepted too, see [ParseCategory].
func (Category) Values() []string {
	return lists.Texts(Categories())
}

// Categories lists the catalog in its fixed order.
func Categories() []Category {
	list := make([]Category, 0, len(catalog))
	for _, e := range catalog {
		list = append(list, e.category)
	}
	return list
}

// Policy returns the category's row of the catalog. For an unknown category it returns 3 attempts from 1 s to 30 s, and false.
func (c Category) Policy() (Retry, bool) {
	name, _ := ParseCategory(string(c))
	e, known := name.entry()
	return e.retry(), known
}

// entry finds the row of a category by its name.
func (c Category) entry() (entry, bool) {
	i := slices.IndexFunc(catalog, func(e entry) bool { return e.category == c })
	if i < 0 {
		return entry{"", 3, sec, 30 * sec, 0}, false
	}
	return catalog[i], true
}

type entry struct {
	category  Category
	attempts  int
	base, top time.Duration
	timeout   time.Duration
}

func (e entry) retry() Retry {
	return Retry{
		MaxAttempts: e.attempts, InitialBackoff: e.base, MaxBackoff: e.top, BackoffMultiplier: 2,
		Jitter: JitterProportional, JitterFactor: 0.1, TimeoutPerAttempt: e.timeout,
	}
}

const (
	half = 500 * time.Millisecond
	sec  = time.Second
)

var catalog = []entry{
	{NATSConnect, 5, sec, 30 * sec, 10 * sec},
	{NATSPublish, 3, half, 10 * sec, 5 * sec},
	{NATSSubscribe, 3, half, 10 * sec, 5 * sec},
	{NATSStreamCreate, 2, 2 * sec, 60 * sec, 15 * sec},
	{KVCreate, 2, sec, 30 * sec, 10 * sec},
	{KVGet, 3, half, 10 * sec, 5 * sec},
	{KVPut, 3, half, 10 * sec, 5 * sec},
	{KVDelete, 2, sec, 30 * sec, 5 * sec},
	{ExecutionIntent, 2, 2 * sec, 60 * sec, 30 * sec},
	{ExecutionContainment, 2, 2 * sec, 60 * sec, 60 * sec},
	{ExecutionExpiration, 1, sec, 30 * sec, 120 * sec},
	{ApprovalCheck, 3, sec, 30 * sec, 5 * sec},
	{ApprovalGrant, 2, 2 * sec, 60 * sec, 10 * sec},
	{ReplayProcessing, 1, sec, 30 * sec, 300 * sec},
	{ReplayValidation, 2, sec, 30 * sec, 60 * sec},
	{APIRequest, 3, sec, 30 * sec, 30 * sec},
	{APIValidation, 2, half, 10 * sec, 10 * sec},
}

// UnderCategory returns the policy for work under a category: p with the catalog's values, within the limits, in place of
// built-in defaults. p is a normalised policy; its Meta keeps the notes of clamped fields.
func (p Policy) UnderCategory(c Category, l Limits) Policy {
	changed := p.Clone()
	changed.Category = c
	changed.Meta = Meta{Clamped: p.Meta.Clamped, None: p.Meta.None, Warnings: p.Meta.Warnings}
	r := &changed.Retry
	for _, path := range p.Meta.Defaulted {
		switch path {
		case "retry.max_attempts":
			r.MaxAttempts = 0
		case "retry.backoff":
			r.InitialBackoff = 0
		case "retry.backoff_cap":
			r.MaxBackoff = 0
		case "retry.backoff_multiplier":
			r.BackoffMultiplier = 0
		case "retry.jitter":
			r.Jitter, r.JitterFactor = "", 0
		case "retry.max_pushback":
			r.MaxPushback = 0
		}
	}
	normal, err := changed.Normalize(l)
	if err != nil {
		return changed // p was normalised; the next normalisation reports the fault
	}
	return normal
}
