package open

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// jobsEnd is a queue of a job store: jobs:STORE-URL?queue=….
type jobsEnd struct {
	store, queue, jobType string
	lease                 time.Duration
	maxAttempts           int
	keys                  string // file of the keys of encrypted payloads
}

// parseJobs parses the URL of a queue. Other parameters than those of queues belong to the store.
func parseJobs(at location) (end, error) {
	store, query, _ := strings.Cut(at.path, "?")
	p, err := address.ReadParameters(query)
	if err != nil {
		return nil, err
	}
	e := &jobsEnd{store: store, queue: cmp.Or(p.Text("queue"), job.DefaultQueue), jobType: p.Text("type"), keys: p.Text("payload_keys")}
	p.Duration("lease", &e.lease)
	p.Number("max_attempts", &e.maxAttempts)
	if e.lease != 0 && (e.lease < time.Second || e.lease > job.MaxLease) {
		return nil, fmt.Errorf("lease=%s: write a duration from 1s to %s", e.lease, job.MaxLease)
	}
	of, _, err := e.ref().locate()
	if err != nil {
		return nil, err
	}
	if of.scheme != schemePostgres {
		_, err := p.Only()
		return e, err
	}
	rest, err := p.Rest()
	if len(rest) > 0 {
		e.store += "?" + rest.Encode()
	}
	return e, err
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

func (e *jobsEnd) source(ctx context.Context, a *cli.App, log *slog.Logger) (SourceCloser, error) {
	store, err := openJobs(ctx, a, e.ref(), Options{})
	if err != nil {
		return nil, err
	}
	codec, err := Codec(ctx, a, e.keys, func() *policy.Set { return nil })
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	source, err := jobs.NewSource(store, jobs.SourceOptions{Queue: e.queue, Lease: e.lease, MaxAttempts: e.maxAttempts, Codec: codec, Log: log})
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
		o.Retry = job.NewExponentialBackoff(cli.PolicyOf(options.Set, key).Retry)
	}
	codec, err := Codec(ctx, a, e.keys, func() *policy.Set { return options.Set })
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return jobSink{jobs.NewSink(job.NewClient(store, job.WithCodec(codec)), o), store}, nil
}
