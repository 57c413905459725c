package workers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	execjob "github.com/tenetdev/tenet/adapter/exec"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// servedQueues holds the queues of a worker, and follows changes of its document.
type servedQueues struct {
	flags *workerFlags
	log   *slog.Logger

	mu     sync.Mutex
	queues map[string]int
	worker *job.Worker // nil until attach
}

// begin sets the queues from the flags and the first document, unless a newer document has arrived already.
func (s *servedQueues) begin(set *policy.Set) error {
	queues, err := queuesOf(s.flags, set)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = queues
	}
	return err
}

// attach gives a worker its queues, also those of later documents.
func (s *servedQueues) attach(w *job.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker = w
	w.SetQueues(s.queues)
}

// now returns the queues that are served. The caller must not change them.
func (s *servedQueues) now() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues
}

// follow applies the queues of a new document.
func (s *servedQueues) follow(set *policy.Set) {
	queues, err := queuesOf(s.flags, set)
	if err != nil { // cannot happen: begin has checked the flags
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := !maps.Equal(s.queues, queues)
	s.queues = queues
	if changed && s.worker != nil {
		s.log.Info("the document has changed the queues", "queues", listQueues(queues))
		s.worker.SetQueues(queues)
	}
	if others := unnamedQueues(set, queues); len(others) > 0 {
		s.log.Warn("queues of the document are not served, because --queue names others", "queues", strings.Join(others, ", "))
	}
}

// unnamedQueues lists the queues of a document that are not served.
func unnamedQueues(set *policy.Set, queues map[string]int) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(set.Queues())), func(name string) bool { return queues[name] > 0 })
}

// queuesOf returns the concurrency of each queue.
func queuesOf(f *workerFlags, set *policy.Set) (map[string]int, error) {
	known := map[string]policy.Queue{}
	if set != nil {
		known = set.Queues()
	}
	names := f.queues
	if len(names) == 0 {
		names = append(slices.Sorted(maps.Keys(known)), job.DefaultQueue)
	}
	queues := map[string]int{}
	for _, text := range names {
		name, size := text, f.concurrency
		if n := known[text].Concurrency; n > 0 {
			size = n
		}
		if i := strings.LastIndexByte(text, '='); i >= 0 {
			n, err := strconv.Atoi(text[i+1:])
			if err != nil || n < 1 || n > cli.MaxConcurrency {
				return nil, cli.Usagef("--queue %q: write name=N with N between 1 and %d", text, cli.MaxConcurrency)
			}
			name, size = text[:i], n
		}
		if name == "" {
			return nil, cli.Usagef("--queue %q: the name is missing", text)
		}
		queues[name] = size
	}
	return queues, nil
}

func listQueues(queues map[string]int) string {
	size := func(name string) string { return fmt.Sprintf("%s=%d", name, queues[name]) }
	return strings.Join(lists.Map(slices.Sorted(maps.Keys(queues)), size), ", ")
}

// warnUnserved warns of queues with jobs that this worker does not serve.
func warnUnserved(ctx context.Context, log *slog.Logger, s open.JobStore, queues map[string]int) {
	stats, err := s.Stats(ctx)
	if err != nil {
		log.Warn("the queues of the store could not be read", "error", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(stats)) {
		if n := stats[name].Ready + stats[name].Scheduled; n > 0 && queues[name] == 0 {
			log.Warn("this worker does not serve a queue that holds jobs; add --queue to work on it", "queue", name, "jobs", n)
		}
	}
}

// warnExec warns of exec jobs in the worker's queues that it is not allowed to run.
func warnExec(ctx context.Context, log *slog.Logger, s open.JobStore, queues map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		waiting, err := s.List(ctx, job.Filter{Queue: name, Type: execjob.Type, States: []job.State{job.Ready, job.Scheduled}}, "", 1)
		if err == nil && len(waiting) > 0 {
			log.Warn("jobs of type exec wait for a worker with --allow-exec", "queue", name)
		}
	}
}

// notes logs what a worker that runs until idle waits for, once.
type notes struct {
	log   *slog.Logger
	store open.JobStore
	made  map[[2]string]bool // by queue and kind of note
}

// first reports whether a note is the first of its kind about a queue.
func (n *notes) first(queue, kind string) bool {
	key := [2]string{queue, kind}
	made := n.made[key]
	n.made[key] = true
	return !made
}

// warnHeld warns of paused queues and of types of jobs that no live worker takes, in queues with ready jobs of which none runs.
func (n *notes) warnHeld(ctx context.Context, queues []string) {
	states, err := n.store.Queues(ctx)
	if err != nil {
		return
	}
	workers, err := n.store.Workers(ctx)
	if err != nil {
		return
	}
	for _, name := range slices.Sorted(slices.Values(queues)) {
		if slices.ContainsFunc(states, func(q job.QueueState) bool { return q.Queue == name && q.Holds(time.Now()) }) {
			if n.first(name, "paused") {
				n.log.Warn("a paused queue holds jobs: --until-idle waits for them; resume it with tenet queues resume", "queue", name)
			}
			continue
		}
		const some = 100
		types := map[string]bool{}
		list, _ := n.store.List(ctx, job.Filter{Queue: name, States: []job.State{job.Ready}}, "", some)
		for _, r := range list {
			takes := func(w job.WorkerInfo) bool { return w.Takes(job.Request{Queue: r.Queue, Type: r.Type}) }
			if !slices.ContainsFunc(workers, takes) && n.first(name, "type "+r.Type) {
				types[r.Type] = true
			}
		}
		if len(types) > 0 {
			n.log.Warn("no live worker takes jobs of these types: --until-idle waits for them; start a worker that does, or cancel them",
				"queue", name, "types", strings.Join(slices.Sorted(maps.Keys(types)), ", "))
		}
	}
}

// noteScheduled logs queues whose scheduled jobs, as far as it looks, run later than the waits of most retries, and reports whether
// there are any.
func (n *notes) noteScheduled(ctx context.Context, queues []string) (found bool) {
	const some, soon = 100, time.Minute
	for _, name := range slices.Sorted(slices.Values(queues)) {
		list, err := n.store.List(ctx, job.Filter{Queue: name, States: []job.State{job.Scheduled}}, "", some)
		if err == nil && len(list) > 0 && !slices.ContainsFunc(list, func(r *job.Record) bool { return time.Until(r.RunAt) < soon }) {
			found = true
			if n.first(name, "scheduled") {
				n.log.Info("--until-idle waits for scheduled jobs; tenet jobs list --state scheduled shows when they run", "queue", name)
			}
		}
	}
	return found
}
