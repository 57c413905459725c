package job

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
)

// Definition is a type of job, defined once: its name, its payload's Go type and the options of every job of the type. It is
// immutable and safe for concurrent use.
type Definition[T any] struct {
	name    string
	options []EnqueueOption
}

// Define defines a type of job, usually in a package variable that producers and workers share:
//
//	var SendEmail = job.Define[Email]("email:send", job.WithQueue("mail"), job.WithAttempts(5))
//
// An empty name panics, and so does a nil option.
func Define[T any](name string, options ...EnqueueOption) Definition[T] {
	if name == "" {
		panic("job: Define: the name is empty")
	}
	for _, o := range options {
		argument.Need(o != nil, "job: Define: an option")
	}
	return Definition[T]{name, slices.Clone(options)}
}

// Name is the name of the type, as in [Request].
func (d Definition[T]) Name() string { return d.name }

// Request asks for a job of the type: for Client.EnqueueMany, the EnqueueTx of a SQL store, or [Periodic]. The options
// follow those of the definition and override them.
func (d Definition[T]) Request(payload T, options ...EnqueueOption) Request {
	r := Request{Type: d.name, Payload: payload}
	for _, o := range d.options {
		o(&r)
	}
	for _, o := range options {
		argument.Need(o != nil, "job: "+d.name+": an option")
		o(&r)
	}
	return r
}

// Node describes a job of the type as a node of a [Flow].
func (d Definition[T]) Node(name string, payload T, options ...EnqueueOption) FlowJob {
	return FlowJob{Request: d.Request(payload, options...), Node: name}
}

// Enqueue stores one job of the type, as [Client.Enqueue] does.
func (d Definition[T]) Enqueue(ctx context.Context, c *Client, payload T, options ...EnqueueOption) (Receipt, error) {
	argument.Need(c != nil, "job: "+d.name+": the client")
	return c.Enqueue(ctx, d.Request(payload, options...))
}

// Handle registers the handler of the type with a worker, as the function [Handle] does.
func (d Definition[T]) Handle(w *Worker, handler func(ctx context.Context, j Job[T]) error) {
	Handle(w, d.name, handler)
}

// EnqueueOption changes a request. Programs may write their own.
type EnqueueOption func(*Request)

// WithQueue sets the queue, default "default".
func WithQueue(name string) EnqueueOption { return func(r *Request) { r.Queue = name } }

// WithRunAt sets the earliest start.
func WithRunAt(t time.Time) EnqueueOption { return func(r *Request) { r.RunAt = t } }

// WithDelay sets the earliest start to d from now, by this process's clock.
func WithDelay(d time.Duration) EnqueueOption {
	return func(r *Request) { r.RunAt = time.Now().Add(d) }
}

// WithAttempts sets the highest number of attempts, the first one included; a lower number in the policy wins.
func WithAttempts(n int) EnqueueOption { return func(r *Request) { r.MaxAttempts = n } }

// WithPriority sets the priority, from 0, the highest and the default, to 9.
func WithPriority(p int) EnqueueOption { return func(r *Request) { r.Priority = p } }

// WithTimeout bounds one attempt. Default: the policy's.
func WithTimeout(d time.Duration) EnqueueOption { return func(r *Request) { r.Timeout = d } }

// WithUniqueKey prevents a second job with the same queue and key for as long as [WithUniqueFor] says or, without it, until
// the first job is finished.
func WithUniqueKey(key string) EnqueueOption { return func(r *Request) { r.UniqueKey = key } }

// WithUniqueFor sets how long a unique key holds from the time of enqueueing.
func WithUniqueFor(d time.Duration) EnqueueOption { return func(r *Request) { r.UniqueFor = d } }

// WithMeta adds entries to the job's meta, for example trace context, tenant or correlation.
func WithMeta(entries map[string]string) EnqueueOption {
	return func(r *Request) {
		meta := maps.Clone(r.Meta)
		if meta == nil {
			meta = map[string]string{}
		}
		maps.Copy(meta, entries)
		r.Meta = meta
	}
}
