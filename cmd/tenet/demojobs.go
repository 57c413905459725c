package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/demo"
)

// storyJSON is a job of the demo's report with its history.
type storyJSON struct {
	Why string  `json:"why"`
	Job jobJSON `json:"job"`
}

// jobsReportJSON is the demo's report.
type jobsReportJSON struct {
	*demo.JobsReport
	Stories []storyJSON  `json:"stories"`
	Audit   auditSummary `json:"audit"`
}

// auditSummary is what the workers' audit log says about itself.
type auditSummary struct {
	Verify *audit.VerifyReport `json:"verify"`
	Replay *audit.ReplayReport `json:"replay"`
}

// good reports whether the log is whole and every decision in it follows from what is recorded.
func (s *auditSummary) good() bool {
	return s.Verify.Intact() && s.Replay.Diverged == 0 && s.Replay.CannotReplay.Total() == 0
}

// demoConcurrency is how many deliveries of a queue a worker of the demo makes at once, unless the document says.
const demoConcurrency = 3

func (a *app) demoJobs(ctx context.Context, f *demoFlags, list []demo.Delivery, form string) (err error) {
	document, err := a.demoDocument(ctx, f.policy, demo.JobsPolicy())
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tenet-demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if f.store == "" {
		f.store = "sqlite:" + filepath.Join(folder, "jobs.db")
	}
	if kind, _, err := parseStore(f.store); err != nil || kind == storeMemory {
		return errors.Join(err, usage("--store %s: the demo's workers are other processes; name a store that they can share", f.store))
	}
	worker, err := a.demoWorker(ctx, f, folder, list)
	if err != nil {
		return err
	}
	return a.withStore(ctx, f.store, opening{create: true}, func(s jobStore) error {
		o := demo.JobsOptions{Seed: f.seed, Deliveries: list, Store: s, Worker: worker, Set: document.Set}
		var clear func()
		o.Progress, clear = a.countDone()
		report, err := demo.RunJobs(ctx, o)
		clear()
		if errors.Is(err, demo.ErrNotEmpty) {
			return fail(exitConflict, err)
		}
		if err != nil {
			return err
		}
		log, err := a.checkAudit(ctx, f.store)
		if err != nil {
			return err
		}
		out := jobsReportJSON{Audit: log, JobsReport: &report, Stories: make([]storyJSON, len(report.Stories))}
		for i, story := range report.Stories {
			out.Stories[i] = storyJSON{story.Why, newJobJSON(story.Job).withHistory(story.History)}
		}
		if err := a.print(form, out, func(w io.Writer) { a.writeJobsReport(w, &report, &log) }); err != nil {
			return err
		}
		if !report.Good() || !log.good() {
			return errors.New("the demo did not keep its promises: see lost deliveries, idempotency keys, the amplification bound and the audit log")
		}
		return nil
	})
}

// checkAudit verifies and replays the log that the workers have written.
func (a *app) checkAudit(ctx context.Context, url string) (s auditSummary, err error) {
	err = a.withAuditLog(ctx, url, func(log *auditLog) error {
		if s.Verify, err = audit.Verify(ctx, log, audit.VerifyOptions{}); err != nil {
			return err
		}
		s.Replay, err = audit.Replay(ctx, log, audit.ReplayOptions{})
		return err
	})
	return s, err
}

// demoWorker returns what makes the commands of workers: this program again, with nothing of this process's settings.
func (a *app) demoWorker(ctx context.Context, f *demoFlags, folder string, list []demo.Delivery) (func() *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text := []byte(demo.JobsPolicy())
	if f.policy == standardInput {
		return nil, usage("--policy -: workers cannot read this process's stdin; write the document to a file")
	}
	if f.policy != "" {
		if text, err = a.readFile(ctx, f.policy); err != nil {
			return nil, err
		}
	}
	document := filepath.Join(folder, "policy.yaml")
	if err := os.WriteFile(document, text, 0o600); err != nil {
		return nil, err
	}
	concurrency := f.concurrency
	if concurrency == 0 {
		concurrency = demoConcurrency
	}
	args := []string{
		"worker", "--store", f.store, "--audit", f.store, "--policy", document, "--allow-private-networks", "--lease", "2s", "--grace", "5s", "--until-stdin-ends",
		"--concurrency", strconv.Itoa(concurrency),
	}
	queues := map[string]bool{}
	for _, d := range list {
		queues[d.Queue] = true
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		args = append(args, "--queue", name)
	}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "TENET_") })
	env = append(env, "XDG_CONFIG_HOME="+folder)
	return func() *exec.Cmd {
		cmd := exec.Command(self, args...)
		cmd.Env = env
		return cmd
	}, nil
}

// writeJobsReport writes the report for people.
func (a *app) writeJobsReport(w io.Writer, r *demo.JobsReport, log *auditSummary) {
	head := fmt.Sprintf("%d of %d deliveries arrived in %s, %d are in the dead-letter queue, %d lost", r.Arrived, r.Deliveries, inSeconds(r.Elapsed), r.Dead, len(r.Lost))
	fprintf(w, "%s  %s\n\n", a.paint(a.stdout, bold, head), a.paint(a.stdout, faint, fmt.Sprintf("seed %d, 3 workers, one of them killed", r.Seed)))
	line := func(name any, format string, args ...any) {
		fprintf(w, "  %-14s%s\n", name, textf(format, args...))
	}
	line("dead", "%d  %s", r.Dead, tally(r.DeadByReason))
	if r.DeadArrived > 0 {
		line("", "%d of them the endpoint has taken all the same, but its answer came too late", r.DeadArrived)
	}
	line("attempts", "%d: %d failed, %d lost with the killed worker; %d refused by budget or breaker", r.Attempts, r.Failed, r.LostLeases, r.Refused)
	line("endpoint", "%s; %s taken more than once, each under one idempotency key", count(r.Requests, "request"), countOf(r.Repeated, "delivery", "deliveries"))
	if r.Strays > 0 {
		line(a.paint(a.stdout, red, "keys"), "%s under another idempotency key", count(r.Strays, "request"))
	}
	line("faults", "%s", tally(r.Faults))
	if b := r.Bound; b != nil {
		verdict := a.paint(a.stdout, green, "kept")
		if !b.Kept {
			verdict = a.paint(a.stdout, red, "BROKEN")
		}
		line("amplification", "%.3f requests per delivery; bound %.3f = 1 + %g + %g/%d: %s", r.Amplification, b.Max, b.Ratio, b.Burst, r.Deliveries, verdict)
	} else {
		line("amplification", "%.3f requests per delivery; the policies promise no bound", r.Amplification)
	}
	line("throughput", "%.0f jobs/s", r.Throughput)
	verdict := a.paint(a.stdout, green, "intact")
	if !log.Verify.Intact() {
		verdict = a.paint(a.stdout, red, "NOT INTACT")
	}
	line("audit", "%s in %s: %s", count(log.Verify.Events, "event"), count(len(log.Verify.Chains), "chain"), verdict)
	line("replay", "%s and %s of %s derived again from policies, facts and seeds; %d diverged", count(log.Replay.Decisions, "decision"),
		count(log.Replay.Delays, "delay"), count(log.Replay.Works, "job"), log.Replay.Diverged)
	if n := log.Replay.CannotReplay.Total(); n > 0 {
		line("", "%s could not be replayed", count(n, "job"))
	}
	for _, id := range r.Lost {
		line(a.paint(a.stdout, red, "lost"), "%s", id)
	}
	for _, s := range r.Stories {
		fprintf(w, "\n%s: %s\n", a.paint(a.stdout, bold, s.Why), s.Job.UniqueKey)
		a.writeJob(w, s.Job, s.History)
	}
}
