package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/uuidv7"
)

// Request asks for a job.
type Request struct {
	// Type names the handler. Required, at most 255 bytes.
	Type string
	// Payload is encoded as JSON; []byte and json.RawMessage are stored unchanged.
	Payload any
	// MaxPayload is the largest size of the payload in bytes, before a codec encodes it. 0 means the client's limit, or
	// DefaultMaxPayload without a client.
	MaxPayload int
	// Queue defaults to "default". At most 128 bytes.
	Queue string
	// RunAt is the earliest start, in the years 1 to 9999. Default now.
	RunAt time.Time
	// MaxAttempts bounds the attempts; if the policy's maximum is lower, that one applies. 0 leaves it to the policy. At most
	// 2³¹−1.
	MaxAttempts int
	// Priority from 0, the highest and the default, to 9.
	Priority int
	// UniqueKey prevents a second job with the same queue and key, for UniqueFor or, if that is 0, until the first one is
	// finished. At most 512 bytes.
	UniqueKey string
	UniqueFor time.Duration
	// Timeout bounds one attempt. 0 leaves it to the policy.
	Timeout time.Duration
	// Meta is passed to the handler and into records, for example trace context, tenant, correlation.
	Meta map[string]string
}

// Limits of requests.
const (
	DefaultQueue      = "default"
	DefaultMaxPayload = 1 << 20
	maxTypeBytes      = 255
	maxQueueBytes     = 128
	maxUniqueBytes    = 512
	maxMetaBytes      = 16 << 10
)

// RequestError reports a field of a request that cannot be stored.
type RequestError struct {
	Index   int // of the request in EnqueueMany
	Field   string
	Problem string
}

// Error implements error.
func (e *RequestError) Error() string {
	return fmt.Sprintf("job: request %d: %s: %s", e.Index, e.Field, e.Problem)
}

// PayloadTooLargeError reports a payload above the limit.
type PayloadTooLargeError struct {
	Index       int // of the request in EnqueueMany
	Size, Limit int // bytes
}

// Error implements error.
func (e *PayloadTooLargeError) Error() string {
	return fmt.Sprintf("job: request %d: payload of %d bytes is above the limit of %d; store it elsewhere and enqueue a reference", e.Index, e.Size, e.Limit)
}

// Inserts checks requests and prepares them for a store, with DefaultMaxPayload as the limit of payloads that do not set
// their own. Stores call it in EnqueueTx.
func Inserts(requests []Request) ([]Insert, error) { return inserts(requests, DefaultMaxPayload) }

func inserts(requests []Request, maxPayload int) ([]Insert, error) {
	list := make([]Insert, len(requests))
	for i, r := range requests {
		in, err := r.insert(i, maxPayload)
		if err != nil {
			return nil, err
		}
		list[i] = in
	}
	return list, nil
}

// insert checks a request and turns it into a row for the store.
func (r Request) insert(index, maxPayload int) (Insert, error) {
	fail := func(field, problem string) (Insert, error) {
		return Insert{}, &RequestError{Index: index, Field: field, Problem: problem}
	}
	r.Queue = cmp.Or(r.Queue, DefaultQueue)
	for _, text := range []struct {
		field, value string
		limit        int
	}{{"type", r.Type, maxTypeBytes}, {"queue", r.Queue, maxQueueBytes}, {"unique_key", r.UniqueKey, maxUniqueBytes}} {
		if problem := textProblem(text.value, text.limit); problem != "" {
			return fail(text.field, problem)
		}
	}
	meta := 0
	for k, v := range r.Meta {
		meta += len(k) + len(v)
		if problem := textProblem(k+v, maxMetaBytes); problem != "" {
			return fail("meta", problem)
		}
	}
	switch {
	case r.Type == "":
		return fail("type", "missing; name the handler")
	case meta > maxMetaBytes:
		return fail("meta", fmt.Sprintf("%d bytes in all, above the limit of %d", meta, maxMetaBytes))
	case r.Priority < 0 || r.Priority > MaxPriority:
		return fail("priority", fmt.Sprintf("%d is not within 0 (highest) to %d", r.Priority, MaxPriority))
	case r.MaxAttempts < 0:
		return fail("max_attempts", fmt.Sprintf("%d is negative; leave it out for the policy's", r.MaxAttempts))
	case r.MaxAttempts > math.MaxInt32:
		return fail("max_attempts", fmt.Sprintf("%d is above the limit of %d; leave it out for the policy's", r.MaxAttempts, math.MaxInt32))
	case r.Timeout < 0 || r.Timeout > MaxDelay:
		return fail("timeout", fmt.Sprintf("%v is out of range; leave it out for the policy's", r.Timeout))
	case r.UniqueFor < 0 || r.UniqueFor > MaxDelay:
		return fail("unique_for", fmt.Sprintf("%v is out of range", r.UniqueFor))
	case yearProblem(r.RunAt) != "":
		return fail("run_at", yearProblem(r.RunAt))
	case r.UniqueFor > 0 && r.UniqueKey == "":
		return fail("unique_key", "missing, but unique_for is set")
	}
	payload, err := encode(r.Payload)
	if err != nil {
		return fail("payload", err.Error())
	}
	size := len(payload)
	if Sealed(payload) { // of an exported job
		size = plainSize(size)
	}
	if limit := cmp.Or(r.MaxPayload, maxPayload); size > limit {
		return Insert{}, &PayloadTooLargeError{Index: index, Size: size, Limit: limit}
	}
	return Insert{
		ID: uuidv7.Next(), Type: r.Type, Queue: r.Queue, Priority: r.Priority, Payload: payload, Meta: r.Meta, Timeout: r.Timeout,
		MaxAttempts: r.MaxAttempts, RunAt: Stamp(r.RunAt), UniqueKey: r.UniqueKey, UniqueFor: r.UniqueFor,
	}, nil
}

// queueProblem says why no queue can have a name, or "".
func queueProblem(name string) string {
	if name == "" {
		return "missing"
	}
	return textProblem(name, maxQueueBytes)
}

// yearProblem says why JSON, and with it a record, cannot hold a time, or "".
func yearProblem(t time.Time) string {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Sprintf("year %d is not within 1 to 9999", year)
	}
	return ""
}

func textProblem(s string, limit int) string {
	switch {
	case len(s) > limit:
		return fmt.Sprintf("%d bytes, above the limit of %d", len(s), limit)
	case !utf8.ValidString(s):
		return "not valid UTF-8"
	case strings.ContainsRune(s, 0):
		return "contains a NUL character"
	}
	return ""
}

func encode(payload any) ([]byte, error) {
	switch p := payload.(type) {
	case nil:
		return []byte("null"), nil
	case []byte:
		return p, nil
	case json.RawMessage:
		return p, nil
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("cannot be encoded as JSON: %w", err)
	}
	return raw, nil
}
