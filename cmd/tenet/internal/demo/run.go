package demo

import (
	"bytes"
	"context"
	_ "embed" // for the policy
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/jobline"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

//go:embed policy.yaml
var builtinPolicy string

// Policy is the built-in policy document of the workers, in YAML.
func Policy() string { return builtinPolicy }

// Options are the options of [Run].
type Options struct {
	Seed       uint64
	Deliveries []Delivery
	// Store is empty. Workers open it themselves.
	Store open.JobStore
	// Worker makes the command of a worker that serves the queues of the deliveries, with short leases, and that stops when
	// its stdin ends.
	Worker func() *exec.Cmd
	// Set is the workers' policies.
	Set *policy.Set
	// Progress is called with the number of finished jobs, on the goroutine of Run. May be nil.
	Progress func(done, total int)
	// Stay is called with the report, while the endpoint still answers and a worker runs. May be nil.
	Stay func(Report) error
}

// ErrNotEmpty is returned for a store that holds jobs: the demo's workers would run them too.
var ErrNotEmpty = errors.New("demo: the store already holds jobs; name a new one")

const (
	watchEvery = 5 * time.Millisecond
	// runTimeout is how long the jobs may take. The slowest takes about 20 s.
	runTimeout = 50 * time.Second
)

// Run starts an endpoint, stores all deliveries as jobs, and starts two workers. It kills one halfway and starts another,
// and returns a report when all jobs have finished. If ctx ends first, it returns the context's cause.
func Run(ctx context.Context, o Options) (Report, error) {
	stats, err := o.Store.Stats(ctx)
	if err != nil {
		return Report{}, err
	}
	if len(stats) > 0 {
		return Report{}, ErrNotEmpty
	}
	endpoint, err := StartEndpoint(Schedule{o.Seed}, o.Deliveries)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = endpoint.Close() }() // nothing depends on how it ends
	if err := importJobs(ctx, o, endpoint.Address()); err != nil {
		return Report{}, err
	}
	f := &fleet{options: o}
	defer f.end()
	began := time.Now()
	for range 2 {
		if err := f.start(); err != nil {
			return Report{}, err
		}
	}
	if err := f.watch(ctx); err != nil {
		return Report{}, err
	}
	elapsed := time.Since(began)
	if err := f.stop(); err != nil {
		return Report{}, err
	}
	report, err := newReport(ctx, o, ending{f.killed, endpoint.Counts(), elapsed})
	if err != nil || o.Stay == nil {
		return report, err
	}
	if err := f.start(); err != nil {
		return report, err
	}
	err = o.Stay(report)
	_ = f.stop() // what has ended the stay may have reached the worker too
	return report, err
}

// importJobs stores the deliveries, with the endpoint's address as their host.
func importJobs(ctx context.Context, o Options, address string) error {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	for _, d := range o.Deliveries {
		l, err := d.line(address)
		if err == nil {
			err = e.Encode(l)
		}
		if err != nil {
			return fmt.Errorf("demo: %s: %w", d.ID, err)
		}
	}
	result, err := jobline.Import(ctx, job.NewClient(o.Store), &lines, jobline.Options{})
	if err == nil && result.Imported != len(o.Deliveries) {
		err = fmt.Errorf("demo: %d of %d deliveries were imported: %v", result.Imported, len(o.Deliveries), result.Rejected)
	}
	return err
}

// fleet is the set of workers.
type fleet struct {
	options Options
	alive   []*process
	killed  string // part of the killed worker's name: its process ID between slashes
}

func (f *fleet) start() error {
	p, err := startProcess(f.options.Worker())
	if err == nil {
		f.alive = append(f.alive, p)
	}
	return err
}

// watch waits until all jobs have finished, and crashes a worker halfway.
func (f *fleet) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	total := len(f.options.Deliveries)
	for end := time.Now().Add(runTimeout); ; {
		stats, err := f.options.Store.Stats(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		done := 0
		for _, q := range stats {
			done += q.Completed + q.Dead + q.Cancelled
		}
		if f.options.Progress != nil {
			f.options.Progress(done, total)
		}
		if done >= total || time.Now().After(end) { // unfinished jobs are then reported as lost
			return nil
		}
		if f.killed == "" && 2*done >= total {
			if err := f.crash(ctx, 10*done >= 9*total); err != nil {
				return err
			}
		}
		for _, p := range f.alive {
			if p.gone() {
				return fmt.Errorf("demo: a worker exited unexpectedly: %w: %s", p.err, lastLines(p.output.Bytes()))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// crash kills the first worker as soon as it has jobs running, or anyway, and starts another.
func (f *fleet) crash(ctx context.Context, anyway bool) error {
	victim := f.alive[0]
	mark := "/" + strconv.Itoa(victim.cmd.Process.Pid) + "/"
	if !anyway {
		running, err := f.options.Store.List(ctx, job.Filter{States: []job.State{job.Running}}, "", 1000)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(running, func(r *job.Record) bool { return strings.Contains(r.Worker, mark) }) {
			return nil
		}
	}
	victim.kill()
	f.alive, f.killed = f.alive[1:], mark
	return f.start()
}

// stop lets all workers finish.
func (f *fleet) stop() (err error) {
	for _, p := range f.alive {
		err = errors.Join(err, p.stop())
	}
	f.alive = nil
	return err
}

// end kills the workers that still run.
func (f *fleet) end() {
	for _, p := range f.alive {
		p.kill()
	}
}
