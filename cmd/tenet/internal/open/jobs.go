package open

import (
	"context"
	"errors"
	"io"
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

// jobPlace is a place jobs:STORE-URL?queue=….
type jobPlace struct {
	store, queue, jobType string
	lease                 time.Duration
	maxAttempts           int
}

// parseJobs takes the URL of a job store with a queue apart. What it does not know is the store's own.
func parseJobs(text string) (p jobPlace, err error) {
	store, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return p, cli.Usagef("the parameters cannot be read: %w", err)
	}
	p = jobPlace{queue: values.Get("queue"), jobType: values.Get("type")}
	if text := values.Get("lease"); text != "" {
		if p.lease, err = time.ParseDuration(text); err != nil || p.lease < time.Second || p.lease > job.MaxLease {
			return p, cli.Usagef("lease=%s: write a duration from 1s to %s", text, job.MaxLease)
		}
	}
	if text := values.Get("max_attempts"); text != "" {
		if p.maxAttempts, err = strconv.Atoi(text); err != nil || p.maxAttempts < 1 {
			return p, cli.Usagef("max_attempts=%s: write 1 or more", text)
		}
	}
	for _, own := range []string{"queue", "type", "lease", "max_attempts"} {
		values.Del(own)
	}
	kind, _, err := ParseStore(store)
	if err != nil {
		return p, err
	}
	p.store = store
	if len(values) > 0 && kind != StorePostgres {
		return p, cli.Usagef("jobs have no parameter %q; they have queue, type, lease, max_attempts", slices.Sorted(maps.Keys(values))[0])
	}
	if len(values) > 0 {
		p.store += "?" + values.Encode()
	}
	if p.queue == "" {
		p.queue = job.DefaultQueue
	}
	return p, nil
}

// jobSource and jobSink close their store.
type jobSource struct {
	*jobs.Source
	io.Closer
}

type jobSink struct {
	pipeline.Sink
	io.Closer
}

func openJobSource(ctx context.Context, a *cli.App, text string) (SourceCloser, error) {
	p, err := parseJobs(text)
	if err != nil {
		return nil, err
	}
	store, err := Jobs(ctx, a, p.store, Options{})
	if err != nil {
		return nil, err
	}
	source, err := jobs.NewSource(store, jobs.SourceOptions{Queue: p.queue, Lease: p.lease, MaxAttempts: p.maxAttempts})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return jobSource{source, store}, nil
}

func openJobSink(ctx context.Context, a *cli.App, text string, set *policy.Set) (SinkCloser, error) {
	p, err := parseJobs(text)
	if err != nil {
		return nil, err
	}
	if p.jobType == "" {
		return nil, cli.Usagef("the type of the jobs is missing; write jobs:STORE-URL?queue=%s&type=TYPE", p.queue)
	}
	store, err := Jobs(ctx, a, p.store, Options{Create: true})
	if err != nil {
		return nil, err
	}
	o := jobs.SinkOptions{Type: p.jobType, Queue: p.queue}
	if key := policy.JobKey(p.queue, p.jobType); set.Named(key) {
		found, err := cli.PolicyOf(set, key)
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		o.Retry = carried{&found.Retry}
	}
	return jobSink{jobs.NewSink(job.NewClient(store), o), store}, nil
}

// carried is how a transaction goes on as a job whose attempts were spent in a pipeline: under the document's policy of the
// job.
type carried struct{ retry *policy.Retry }

// NextDelay implements job.RetryPolicy.
func (c carried) NextDelay(failed int) time.Duration {
	return decision.Delay(c.retry, rand.Uint64(), max(failed-1, 0))
}

// MaxAttempts implements job.RetryPolicy.
func (c carried) MaxAttempts() int { return c.retry.MaxAttempts }
