package pipeline

import (
	"maps"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/uuidv7"
)

// Transaction is one unit of work. It is immutable: engines, tasks, sources and sinks share it without copying. The zero
// Transaction is not valid; make one with [NewTransaction].
type Transaction struct {
	id          string
	payload     []byte
	metadata    map[string]string
	correlation string
	parent      string
	attempts    int
}

// TransactionOption adds to a new transaction.
type TransactionOption func(*Transaction)

// WithMetadata adds a copy of the map to the metadata.
func WithMetadata(m map[string]string) TransactionOption {
	return func(t *Transaction) {
		merged := maps.Clone(t.metadata)
		if merged == nil {
			merged = make(map[string]string, len(m))
		}
		maps.Copy(merged, m)
		t.metadata = merged
	}
}

// WithPayload replaces the payload. The slice is not copied and must not be changed afterwards.
func WithPayload(payload []byte) TransactionOption {
	return func(t *Transaction) { t.payload = payload }
}

// WithID replaces the ID.
func WithID(id string) TransactionOption { return func(t *Transaction) { t.id = id } }

// WithCorrelation sets the ID that this transaction shares with others of the same business process.
func WithCorrelation(id string) TransactionOption { return func(t *Transaction) { t.correlation = id } }

// WithParent sets the ID of the transaction that this one was made from.
func WithParent(id string) TransactionOption { return func(t *Transaction) { t.parent = id } }

// mostAttempts bounds a count that others may have written, since computing the delay may take one step per attempt.
const mostAttempts = 1_000_000

// WithAttempts sets the number of attempts made on the transaction elsewhere, before it reached this source: 0 to 1,000,000.
// Numbers outside this range count as the nearer bound.
func WithAttempts(n int) TransactionOption {
	return func(t *Transaction) { t.attempts = min(max(n, 0), mostAttempts) }
}

// NewTransaction makes a transaction. The payload is not copied and must not be changed afterwards. An empty ID is replaced
// by a UUIDv7. With an ID that stays the same over redeliveries, delays, idempotency and records are stable too.
func NewTransaction(id string, payload []byte, options ...TransactionOption) *Transaction {
	if id == "" {
		id = uuidv7.New(time.Now())
	}
	t := &Transaction{id: id, payload: payload}
	for _, o := range options {
		argument.Need(o != nil, "pipeline: NewTransaction: an option")
		o(t)
	}
	return t
}

// With returns a copy with changes.
func (t *Transaction) With(options ...TransactionOption) *Transaction {
	changed := *t
	for _, o := range options {
		argument.Need(o != nil, "pipeline: Transaction.With: an option")
		o(&changed)
	}
	return &changed
}

// ID identifies the transaction, and seeds its delays.
func (t *Transaction) ID() string { return t.id }

// Payload returns the payload, which is read-only.
func (t *Transaction) Payload() []byte { return t.payload }

// Metadata returns a value, or "".
func (t *Transaction) Metadata(name string) string { return t.metadata[name] }

// AllMetadata returns a copy of the metadata.
func (t *Transaction) AllMetadata() map[string]string { return maps.Clone(t.metadata) }

// Correlation is the ID of the business process, or "".
func (t *Transaction) Correlation() string { return t.correlation }

// Parent is the ID of the transaction that this one was made from, or "".
func (t *Transaction) Parent() string { return t.parent }

// Attempts is the number of attempts made elsewhere, see [WithAttempts].
func (t *Transaction) Attempts() int { return t.attempts }

// Names of metadata that engines read or write.
const (
	// MetaTraceParent and MetaTraceState are the transaction's trace (W3C Trace Context).
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	// MetaTenant is the tenant of records and of the guard's keys.
	MetaTenant = "tenant_id"
	// A dead letter holds its error and category, the step that failed, and the name of the engine.
	MetaError    = "tenet_error"
	MetaCategory = "tenet_category"
	MetaStep     = "tenet_step"
	MetaConsumer = "tenet_pipeline"
)

// Delivery is a transaction as delivered by a source.
type Delivery struct {
	Transaction *Transaction
	// Token belongs to the source; the engine hands it back with acknowledgements.
	Token any
	// Count is how often the transaction has been delivered, this time included; 0 if the source does not know.
	Count int
	// Deadline is when the source takes the delivery back unless it is extended; the zero time means never.
	Deadline time.Time
}
