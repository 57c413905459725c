package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
)

// Names of a job's meta that hold what a transaction is.
const (
	MetaTransaction = "tenet_transaction" // its ID
	MetaAttempts    = "tenet_attempts"    // spent before it was a job
	MetaParent      = "tenet_parent"
	MetaCorrelation = "correlation_id" // workers put it into records
	metaTrace       = "trace_id"       // so do they with this
)

// DefaultUniqueFor is how long a transaction is recognised: longer than sources take to deliver again what was not
// acknowledged.
const DefaultUniqueFor = 24 * time.Hour

const (
	maxUniqueKey = 512     // bytes, the limit of jobs
	maxErrorMeta = 4 << 10 // bytes of a dead letter's error
)

// SinkOptions say what jobs are made.
type SinkOptions struct {
	// Type names the jobs' handler. Required.
	Type string
	// Queue defaults to "default".
	Queue string
	// Priority from 0, the highest and the default, to 9.
	Priority int
	// UniqueFor keeps a second job of the same transaction out for that long, also when the first one is done. Default 24 h;
	// negative for as long as the first one lives.
	UniqueFor time.Duration
	// Retry is how a transaction goes on whose attempts were spent elsewhere: the job starts after the wait that follows
	// them, and has what they leave of the maximum, at least 1. Nil starts it at once and leaves its maximum to the worker's
	// policy, which bounds it in any case.
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

// Dispatch implements pipeline.Sink: it returns when the job is stored, or was before. What cannot be a job, such as a
// payload above the client's limit, is a business error.
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
		UniqueKey: keyOf(t.ID()), UniqueFor: s.o.UniqueFor,
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

// keyOf is an ID as a unique key: its hash where it cannot be one.
func keyOf(id string) string {
	if len(id) <= maxUniqueKey && utf8.ValidString(id) && !strings.Contains(id, "\x00") {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// metaOf is what a job keeps of a transaction beside its payload.
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

// FromJob is the transaction that a job was made of, as a handler sees it. Its attempts are those from before the job and
// those of the job that have failed. A job that was made otherwise is a transaction with the job's ID.
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
