package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// jobsEnd is a queue of a job store: jobs:STORE-URL?queue=….
type jobsEnd struct {
	store, queue, jobType string
	lease                 time.Duration
	maxAttempts           int
}

// parseJobs parses the URL of a queue. Other parameters than those of queues belong to the store.
func parseJobs(at location) (end, error) {
	store, query, _ := strings.Cut(at.path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("the parameters cannot be read: %w", err)
	}
	e := &jobsEnd{store: store, queue: cmp.Or(values.Get("queue"), job.DefaultQueue), jobType: values.Get("type")}
	if text := values.Get("lease"); text != "" {
		if e.lease, err = time.ParseDuration(text); err != nil || e.lease < time.Second || e.lease > job.MaxLease {
			return nil, fmt.Errorf("lease=%s: write a duration from 1s to %s", text, job.MaxLease)
		}
	}
	if text := values.Get("max_attempts"); text != "" {
		if e.maxAttempts, err = strconv.Atoi(text); err != nil || e.maxAttempts < 1 {
			return nil, fmt.Errorf("max_attempts=%s: write 1 or more", text)
		}
	}
	for _, own := range []string{"queue", "type", "lease", "max_attempts"} {
		values.Del(own)
	}
	of, _, err := e.ref().locate()
	switch {
	case err != nil:
		return nil, err
	case len(values) > 0 && of.scheme != schemePostgres:
		return nil, fmt.Errorf("jobs have no parameter %q; they have queue, type, lease, max_attempts", slices.Sorted(maps.Keys(values))[0])
	case len(values) > 0:
		e.store += "?" + values.Encode()
	}
	return e, nil
}

func (e *jobsEnd) ref() Ref { return Ref{Flag: "", URL: e.store, Use: UseJobs} }

// jobSource and jobSink close their store.
type jobSource struct {
	*jobs.Source
	io.Closer
}

type jobSink struct {
	pipeline.Sink
	io.Closer
}

func (e *jobsEnd) source(ctx context.Context, a *cli.App, _ *slog.Logger) (SourceCloser, error) {
	store, err := openJobs(ctx, a, e.ref(), Options{})
	if err != nil {
		return nil, err
	}
	source, err := jobs.NewSource(store, jobs.SourceOptions{Queue: e.queue, Lease: e.lease, MaxAttempts: e.maxAttempts})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return jobSource{source, store}, nil
}

func (e *jobsEnd) sink(ctx context.Context, a *cli.App, options SinkOptions) (SinkCloser, error) {
	if e.jobType == "" {
		return nil, cli.Usagef("the type of the jobs is missing; write jobs:STORE-URL?queue=%s&type=TYPE", e.queue)
	}
	store, err := openJobs(ctx, a, e.ref(), Options{Create: true})
	if err != nil {
		return nil, err
	}
	o := jobs.SinkOptions{Type: e.jobType, Queue: e.queue}
	if key := policy.JobKey(e.queue, e.jobType); options.Set.Named(key) {
		found, err := cli.PolicyOf(options.Set, key)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		o.Retry = carried{&found.Retry}
	}
	return jobSink{jobs.NewSink(job.NewClient(store), o), store}, nil
}

// carried is the retry policy of a transaction that used up its attempts in a pipeline and continues as a job: the document's
// policy of that job.
type carried struct{ retry *policy.Retry }

// NextDelay implements job.RetryPolicy.
func (c carried) NextDelay(failed int) time.Duration {
	return decision.Delay(c.retry, rand.Uint64(), max(failed-1, 0))
}

// MaxAttempts implements job.RetryPolicy.
func (c carried) MaxAttempts() int { return c.retry.MaxAttempts }
