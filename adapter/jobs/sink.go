package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
)

// Names in a job's meta for the parts of a transaction.
const (
	MetaTransaction = "tenet_transaction" // its ID
	MetaAttempts    = "tenet_attempts"    // made before it was a job
	MetaParent      = "tenet_parent"
	MetaCorrelation = "correlation_id" // workers copy it into records
	metaTrace       = "trace_id"       // likewise
)

// DefaultUniqueFor is how long a sink recognises a transaction: longer than sources take to deliver it again when it was not
// acknowledged.
const DefaultUniqueFor = 24 * time.Hour

const (
	maxUniqueKey = 512     // bytes, the limit of jobs
	maxErrorMeta = 4 << 10 // bytes of a dead letter's error
)

// SinkOptions configure a sink.
type SinkOptions struct {
	// Type names the jobs' handler. Required.
	Type string
	// Queue defaults to "default".
	Queue string
	// Priority from 0, the highest and the default, to 9.
	Priority int
	// UniqueFor is how long a second job of the same transaction is prevented, even when the first one has ended. Default
	// 24 h; a negative value prevents it until the first one ends.
	UniqueFor time.Duration
	// Retry continues the attempts that a transaction has made already: the job starts after the wait that follows them, and
	// its maximum is what they leave, at least 1. Nil starts the job at once and leaves its maximum to the worker's policy,
	// which applies in any case.
	Retry job.RetryPolicy
}

// Sink makes a job of each transaction. It is safe for concurrent use.
type Sink struct {
	client *job.Client
	o      SinkOptions
}

// NewSink makes a sink. It panics without a client or a type.
func NewSink(client *job.Client, o SinkOptions) *Sink {
	argument.Need(client != nil, "jobs: NewSink: the client")
	if o.Type == "" {
		panic("jobs: NewSink: SinkOptions.Type is empty")
	}
	switch {
	case o.UniqueFor == 0:
		o.UniqueFor = DefaultUniqueFor
	case o.UniqueFor < 0:
		o.UniqueFor = 0
	}
	return &Sink{client, o}
}

// Dispatch implements pipeline.Sink: it returns when the job is stored, or was stored before. A transaction that cannot be a
// job, such as one with a payload above the client's limit, is a business error.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	if t == nil {
		return errors.New("jobs: Dispatch: the transaction is nil")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	payload := t.Payload()
	if payload == nil {
		payload = []byte{}
	}
	r := job.Request{
		Type: s.o.Type, Queue: s.o.Queue, Priority: s.o.Priority, Payload: payload, Meta: metaOf(t),
		UniqueKey: keyOf(s.o.Type, t.ID()), UniqueFor: s.o.UniqueFor,
	}
	if retry := s.o.Retry; retry != nil {
		if most := retry.MaxAttempts(); most > 0 {
			r.MaxAttempts = max(most-t.Attempts(), 1)
		}
		if t.Attempts() > 0 {
			r.RunAt = time.Now().Add(retry.NextDelay(t.Attempts()))
		}
	}
	_, err := s.client.Enqueue(ctx, r)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("jobs: transaction %s: %w", t.ID(), err)
	_, wrong := errors.AsType[*job.RequestError](err)
	_, large := errors.AsType[*job.PayloadTooLargeError](err)
	if wrong || large {
		return classify.Business(err)
	}
	return err
}

// keyOf returns the unique key of a transaction in jobs of a type, or its hash if it cannot be one. Transactions of other types in the same
// queue may have the same IDs.
func keyOf(jobType, id string) string {
	key := url.PathEscape(jobType) + "/" + id
	if len(key) <= maxUniqueKey && utf8.ValidString(key) && !strings.Contains(key, "\x00") {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// metaOf returns the meta that holds a transaction except for its payload.
func metaOf(t *pipeline.Transaction) map[string]string {
	meta := t.AllMetadata()
	if meta == nil {
		meta = map[string]string{}
	}
	for name, value := range meta {
		meta[name] = job.CleanText(value)
	}
	if text := meta[pipeline.MetaError]; len(text) > maxErrorMeta {
		meta[pipeline.MetaError] = strings.ToValidUTF8(text[:maxErrorMeta], "")
	}
	set := func(name, value string) {
		if value != "" {
			meta[name] = job.CleanText(value)
		}
	}
	set(MetaTransaction, t.ID())
	set(MetaCorrelation, t.Correlation())
	set(MetaParent, t.Parent())
	if parts := strings.Split(t.Metadata(pipeline.MetaTraceParent), "-"); len(parts) == 4 {
		set(metaTrace, parts[1])
	}
	if t.Attempts() > 0 {
		set(MetaAttempts, strconv.Itoa(t.Attempts()))
	}
	return meta
}

// FromJob returns the transaction that a job was made from. Its attempts are those made before the job plus the job's failed
// ones. A job that no sink made becomes a transaction with the job's ID.
func FromJob(j job.Job[[]byte]) *pipeline.Transaction {
	return transaction(j.ID, j.Payload, j.Meta, j.Attempt-1)
}

func transaction(id string, payload []byte, meta map[string]string, failed int) *pipeline.Transaction {
	meta = maps.Clone(meta)
	take := func(name string) string {
		value := meta[name]
		delete(meta, name)
		return value
	}
	if own := take(MetaTransaction); own != "" {
		id = own
	}
	before, _ := strconv.Atoi(take(MetaAttempts)) // a value that others have set counts as 0
	return pipeline.NewTransaction(id, payload, pipeline.WithCorrelation(take(MetaCorrelation)), pipeline.WithParent(take(MetaParent)),
		pipeline.WithAttempts(max(before, 0)+failed), pipeline.WithMetadata(meta))
}
