package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Metadata of a transaction that was a job.
const (
	MetaJob  = "job_id"
	MetaType = "job_type"
)

// SourceOptions configure a source. The zero value works.
type SourceOptions struct {
	// Queue defaults to "default". All its jobs are taken, whatever their type.
	Queue string
	// Worker is the name in the jobs' history. Default host, process ID and a random part.
	Worker string
	// Lease is how long a job stays reserved without an extension, default 30 s, 1 ms to 24 h.
	Lease time.Duration
	// MaxAttempts bounds the attempts of jobs together with their own maximum. Default 25.
	MaxAttempts int
	// Codec decodes payloads that were encoded when they were enqueued. Without the right one such a job waits for a process that has
	// it, and uses up no attempt.
	Codec job.Codec
	// Poll is how often a fetch that waits looks for jobs. Default 200 ms.
	Poll time.Duration
	// Log defaults to slog.Default(). Payloads are never logged.
	Log *slog.Logger
}

// Defaults of sources.
const (
	DefaultMaxAttempts = 25
	DefaultPoll        = 200 * time.Millisecond

	maintainEvery = time.Second // as workers do
	maintainLimit = 1000
)

// Source delivers the jobs of a queue under leases, in the order of their priority and time. It is safe for concurrent use,
// and does not close the store.
type Source struct {
	store job.Store
	o     SourceOptions

	mu         sync.Mutex
	maintained time.Time
	announcer  *job.Announcer
}

// NewSource makes a source of a store.
func NewSource(store job.Store, o SourceOptions) (*Source, error) {
	if store == nil {
		return nil, errors.New("jobs: NewSource: the store is nil")
	}
	o.Queue = cmp.Or(o.Queue, job.DefaultQueue)
	if o.Worker == "" {
		host, _ := os.Hostname()
		o.Worker = fmt.Sprintf("%s/%d/%.8s", host, os.Getpid(), rand.Text())
	}
	o.Lease = cmp.Or(o.Lease, job.DefaultLease)
	o.MaxAttempts = cmp.Or(max(o.MaxAttempts, 0), DefaultMaxAttempts)
	o.Poll = cmp.Or(max(o.Poll, 0), DefaultPoll)
	o.Log = cmp.Or(o.Log, slog.Default())
	if err := job.CheckLease(o.Lease); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return &Source{store: store, o: o, announcer: job.NewAnnouncer(store)}, nil
}

// Fetch implements pipeline.Source.
func (s *Source) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	for end := time.Now().Add(r.Wait); ; {
		got, err := s.claim(ctx, r.Max)
		left := time.Until(end)
		if len(got) > 0 || err != nil || left <= 0 {
			return got, err
		}
		if wait.For(ctx, min(s.o.Poll, left)) != nil {
			return nil, ctx.Err()
		}
	}
}

// Lag implements pipeline.Lagger: the ready jobs of the queue.
func (s *Source) Lag(ctx context.Context) (int64, error) {
	store, ok := s.store.(job.Admin)
	if !ok {
		return 0, errors.New("jobs: this store keeps no counts")
	}
	stats, err := store.Stats(ctx)
	if err != nil {
		return 0, fmt.Errorf("jobs: %w", err)
	}
	return int64(stats[s.o.Queue].Ready), nil
}

// claim leases due jobs. Jobs whose attempts were all lost with their leases become dead, as do those with damaged payloads; jobs that
// another process has the key of are put back. Others take their place.
func (s *Source) claim(ctx context.Context, most int) ([]pipeline.Delivery, error) {
	if err := s.maintain(ctx); err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	for {
		records, err := job.Take(ctx, s.store, job.Claim{
			Worker: s.o.Worker, Queues: []job.Slots{{Queue: s.o.Queue, Free: most}}, Lease: s.o.Lease,
		})
		if err != nil {
			return nil, fmt.Errorf("jobs: %w", err)
		}
		got := make([]pipeline.Delivery, 0, len(records))
		var unfit []job.Settlement
		for _, r := range records {
			payload, err := job.Open(s.o.Codec, r.Type, r.Payload)
			switch {
			case r.Failures >= s.limit(r):
				unfit = append(unfit, job.Settlement{Ref: r.Ref(), Kind: job.KindBury, Reason: policy.ReasonAttemptsExhausted})
			case err != nil:
				s.o.Log.WarnContext(ctx, "jobs: the payload of a job cannot be decoded", "job", r.ID, "type", r.Type, "queue", r.Queue, "error", err)
				unfit = append(unfit, job.Unopened(r, err))
			default:
				r.Payload = payload
				got = append(got, delivery(r))
			}
		}
		if len(unfit) > 0 {
			err = errors.Join(job.Settle(ctx, s.store, unfit)...)
		}
		if len(got) > 0 || len(unfit) == 0 || err != nil {
			return got, err
		}
	}
}

// maintain makes due jobs ready and reclaims lost leases, as workers do, for stores without a worker.
func (s *Source) maintain(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.maintained) < min(maintainEvery, s.o.Poll) {
		return nil
	}
	s.maintained = time.Now()
	// Without an entry, producers only get a needless warning: no reason to fail.
	_ = s.announcer.Announce(ctx, job.WorkerInfo{Name: s.o.Worker, Queues: []string{s.o.Queue}})
	_, err := s.store.Maintain(ctx, job.Maintenance{Limit: maintainLimit})
	return err
}

// limit returns the maximum of a job's attempts.
func (s *Source) limit(r *job.Record) int {
	if r.MaxAttempts > 0 {
		return min(r.MaxAttempts, s.o.MaxAttempts)
	}
	return s.o.MaxAttempts
}

func delivery(r *job.Record) pipeline.Delivery {
	t := transaction(r.ID, r.Payload, r.Meta, r.Failures).With(pipeline.WithMetadata(map[string]string{MetaJob: r.ID, MetaType: r.Type}))
	return pipeline.Delivery{Transaction: t, Token: r, Count: r.Failures + 1, Deadline: r.LeaseUntil}
}

var errForeign = errors.New("jobs: the delivery does not come from a source of jobs")

// Ack implements pipeline.Acker: the jobs are completed. Settlements that the store cannot take now are repeated until ctx
// ends.
func (s *Source) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	list := make([]job.Settlement, len(done))
	for i, d := range done {
		r, ok := d.Token.(*job.Record)
		if !ok {
			return slices.Repeat([]error{errForeign}, len(done))
		}
		list[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess}
	}
	return job.Settle(ctx, s.store, list)
}

// Nack implements pipeline.Nacker. The package documentation says what becomes of the job.
func (s *Source) Nack(ctx context.Context, d pipeline.Delivery, delay time.Duration, cause error) error {
	r, ok := d.Token.(*job.Record)
	if !ok {
		return errForeign
	}
	return errors.Join(job.Settle(ctx, s.store, []job.Settlement{s.settlement(r, delay, cause)})...)
}

func (s *Source) settlement(r *job.Record, delay time.Duration, cause error) job.Settlement {
	x := job.Settlement{Ref: r.Ref(), Kind: job.KindRelease, Reason: policy.ReasonShutdown}
	switch {
	case cause == nil && delay > 0:
		x.Kind, x.Delay, x.Reason = job.KindSnooze, delay, policy.ReasonSnoozed
		return x
	case cause == nil:
		return x
	}
	x.Error = cause.Error()
	switch final := verdict(cause); {
	case final != "":
		x.Kind, x.Reason = job.KindDead, final
	case r.Failures+1 >= s.limit(r):
		x.Kind, x.Reason = job.KindDead, policy.ReasonAttemptsExhausted
	default:
		x.Kind, x.Delay, x.Reason = job.KindRetry, delay, policy.ReasonError
	}
	return x
}

// verdict is the reason why a failed transaction cannot succeed later, or "". The failure of a handler does not decide that.
func verdict(cause error) policy.Reason {
	if failed, ok := errors.AsType[*pipeline.TransactionError](cause); ok {
		if failed.Earlier != nil {
			return ""
		}
		cause = failed.Cause
	}
	switch mark, _ := classify.MarkOf(cause); mark {
	case classify.MarkBusiness:
		return policy.ReasonBusiness
	case classify.MarkPermanent:
		return policy.ReasonPermanent
	}
	if judged, ok := errors.AsType[*retry.Error](cause); ok && judged.Outcome.Kind == classify.NonRetryable {
		return policy.ReasonNonRetryable
	}
	return ""
}

// Extend implements pipeline.Extender.
func (s *Source) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	leases := make([]job.Ref, len(held))
	for i, d := range held {
		r, ok := d.Token.(*job.Record)
		if !ok {
			return slices.Repeat([]error{errForeign}, len(held))
		}
		leases[i] = r.Ref()
	}
	errs := s.store.Extend(ctx, leases, s.o.Lease)
	for i, err := range errs {
		if errors.Is(err, job.ErrCancelRequested) {
			errs[i] = nil // the lease was extended nevertheless
		}
	}
	return errs
}

// ExtendEvery implements pipeline.Extender: a third of the lease.
func (s *Source) ExtendEvery() time.Duration { return s.o.Lease / 3 }
