package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// jobKind decides which workers take a job.
type jobKind struct{ queue, jobType string }

func kindOfJob(r job.Request) jobKind {
	return jobKind{cmp.Or(r.Queue, job.DefaultQueue), r.Type}
}

// maxUntaken bounds the warnings of one command.
const maxUntaken = 5

// warnUntaken warns of stored jobs that no live worker takes. It prints nothing if no worker runs, because filling a store
// before its workers start is normal, and ignores errors, because the jobs are stored.
func warnUntaken(ctx context.Context, a *cli.App, s open.JobStore, kinds map[jobKind]bool) {
	if len(kinds) == 0 {
		return
	}
	workers, err := s.Workers(ctx)
	if err != nil || len(workers) == 0 {
		return
	}
	untaken := slices.DeleteFunc(slices.Collect(maps.Keys(kinds)), func(k jobKind) bool {
		return slices.ContainsFunc(workers, func(w job.WorkerInfo) bool { return w.Takes(job.Request{Queue: k.queue, Type: k.jobType}) })
	})
	warnings := make([]string, len(untaken))
	for i, k := range untaken {
		if types := typesTaken(workers, k.queue); len(types) > 0 {
			warnings[i] = fmt.Sprintf("no live worker takes jobs of type %q from queue %q; its workers take %s", k.jobType, k.queue, strings.Join(types, ", "))
		} else {
			warnings[i] = fmt.Sprintf("no live worker serves queue %q", k.queue)
		}
	}
	slices.Sort(warnings)
	warnings = slices.Compact(warnings) // one for each queue without workers
	for _, w := range warnings[:min(len(warnings), maxUntaken)] {
		a.Warn("%s", w)
	}
	if more := len(warnings) - maxUntaken; more > 0 {
		a.Warn("no live worker takes %s of these jobs", cli.Count(more, "more kind"))
	}
}

// typesTaken lists the types that workers take from a queue.
func typesTaken(workers []job.WorkerInfo, queue string) []string {
	types := map[string]bool{}
	for _, w := range workers {
		if slices.Contains(w.Queues, queue) {
			for _, t := range w.Types {
				types[t] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types))
}
