package demo

import (
	"cmp"
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
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server/api"
)

// storyJSON is a job of the demo's report with its history.
type storyJSON struct {
	Why string  `json:"why"`
	Job api.Job `json:"job"`
}

// reportJSON is the demo's report.
type reportJSON struct {
	*Report
	Stories []storyJSON  `json:"stories"`
	Audit   auditSummary `json:"audit"`
}

// auditSummary is the result of verifying and replaying the workers' audit log.
type auditSummary struct {
	Verify *audit.VerifyReport `json:"verify"`
	Replay *audit.ReplayReport `json:"replay"`
}

// good reports whether the log is intact and every decision follows from the record.
func (s *auditSummary) good() bool {
	return s.Verify.Intact() && s.Replay.Diverged == 0 && s.Replay.CannotReplay.Total() == 0
}

func deliver(ctx context.Context, a *cli.App, f *demoFlags) (err error) {
	text := []byte(Policy())
	if f.policy != "" {
		if text, err = a.ReadFile(ctx, f.policy); err != nil {
			return err
		}
	}
	document, err := a.Parse(cmp.Or(f.policy, "demo.yaml"), text, nil)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "tenet-demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	f.store = cmp.Or(f.store, "sqlite:"+filepath.Join(folder, "jobs.db"))
	if err := open.CheckShared(f.store); err != nil { // the workers are other processes
		return err
	}
	worker, err := workerCommand(f, folder, text)
	if err != nil {
		return err
	}
	all, err := open.Everything(ctx, a, open.Options{URL: f.store, Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	o := Options{Seed: f.seed, Deliveries: f.deliveries, Store: all.Jobs, Worker: worker, Set: document.Set}
	if f.ui {
		show, failure := showUI(ctx, a, f.listen, all)
		if failure != nil {
			return failure
		}
		defer func() { err = errors.Join(err, show.close()) }()
		o.Stay = func(r Report) error {
			if err := f.report(ctx, a, r); err != nil {
				return err
			}
			a.Note("", "the web UI stays at %s until Ctrl-C", show.url)
			<-ctx.Done()
			return nil
		}
	}
	var clear func()
	o.Progress, clear = countDone(a)
	report, err := Run(ctx, o)
	clear()
	switch {
	case errors.Is(err, ErrNotEmpty):
		return cli.Fail(cli.ExitConflict, err)
	case err != nil || f.ui:
		return err
	}
	return f.report(ctx, a, report)
}

// report prints the report, and fails if the demo did.
func (f *demoFlags) report(ctx context.Context, a *cli.App, report Report) error {
	log, err := checkAudit(ctx, a, f.store)
	if err != nil {
		return err
	}
	shown := func(s Story) storyJSON { return storyJSON{s.Why, jobs.NewJSON(s.Job, s.History)} }
	out := reportJSON{Audit: log, Report: &report, Stories: lists.Map(report.Stories, shown)}
	if err := a.Print(*f.form, out, func(w io.Writer) { writeReport(a, w, &report, &log) }); err != nil {
		return err
	}
	if !report.Good() || !log.good() {
		return errors.New("the demo failed: see lost deliveries, idempotency keys, the amplification bound and the audit log")
	}
	return nil
}

// checkAudit verifies and replays the log that the workers have written.
func checkAudit(ctx context.Context, a *cli.App, url string) (s auditSummary, err error) {
	err = open.WithAuditLog(ctx, a, url, func(log *open.AuditLog) error {
		if s.Verify, err = audit.Verify(ctx, log, audit.VerifyOptions{}); err != nil {
			return err
		}
		s.Replay, err = audit.Replay(ctx, log, audit.ReplayOptions{})
		return err
	})
	return s, err
}

// workerCommand returns a function that makes the commands of workers: this program, without the settings of this process. The folder
// gets their document.
func workerCommand(f *demoFlags, folder string, text []byte) (func() *exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	document := filepath.Join(folder, "policy.yaml")
	if err := os.WriteFile(document, text, 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"worker", "--store", f.store, "--audit", f.store, "--policy", document, "--allow-private-networks", "--lease", "2s", "--grace", "5s", "--until-stdin-ends",
		"--concurrency", strconv.Itoa(f.concurrency),
	}
	queues := map[string]bool{}
	for _, d := range f.deliveries {
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

// writeReport writes the report for people.
func writeReport(a *cli.App, w io.Writer, r *Report, log *auditSummary) {
	head := fmt.Sprintf("%d of %d deliveries arrived in %s, %d are in the dead-letter queue, %d lost",
		r.Arrived, r.Deliveries, cli.Brief(api.Duration(r.Elapsed)), r.Dead, len(r.Lost))
	cli.Fprintf(w, "%s  %s\n\n", a.Paint(a.Stdout, cli.Bold, head), a.Paint(a.Stdout, cli.Faint, fmt.Sprintf("seed %d, 3 workers, one of them killed", r.Seed)))
	line := func(name any, format string, args ...any) {
		cli.Fprintf(w, "  %-14s%s\n", name, cli.Textf(format, args...))
	}
	line("dead", "%d  %s", r.Dead, tally(r.DeadByReason))
	if r.DeadArrived > 0 {
		line("", "%d of them were accepted by the endpoint, but its answer came too late", r.DeadArrived)
	}
	line("attempts", "%d: %d failed, %d lost with the killed worker; %d refused by budget or breaker", r.Attempts, r.Failed, r.LostLeases, r.Refused)
	line("endpoint", "%s; %s accepted more than once, each under one idempotency key", cli.Count(r.Requests, "request"), cli.Plural(r.Repeated, "delivery", "deliveries"))
	if r.Strays > 0 {
		line(a.Paint(a.Stdout, cli.Red, "keys"), "%s under another idempotency key", cli.Count(r.Strays, "request"))
	}
	line("faults", "%s", tally(r.Faults))
	if b := r.Bound; b != nil {
		verdict := a.Paint(a.Stdout, cli.Green, "kept")
		if !b.Kept {
			verdict = a.Paint(a.Stdout, cli.Red, "BROKEN")
		}
		line("amplification", "%.3f requests per delivery; bound %.3f = 1 + %g + %g/%d: %s", r.Amplification, b.Max, b.Ratio, b.Burst, r.Deliveries, verdict)
	} else {
		line("amplification", "%.3f requests per delivery; the policies set no bound", r.Amplification)
	}
	line("throughput", "%.0f jobs/s", r.Throughput)
	verdict := a.Paint(a.Stdout, cli.Green, "intact")
	if !log.Verify.Intact() {
		verdict = a.Paint(a.Stdout, cli.Red, "NOT INTACT")
	}
	line("audit", "%s in %s: %s", cli.Count(log.Verify.Events, "event"), cli.Count(len(log.Verify.Chains), "chain"), verdict)
	line("replay", "%s and %s of %s recomputed from policies, facts and seeds; %d diverged", cli.Count(log.Replay.Decisions, "decision"),
		cli.Count(log.Replay.Delays, "delay"), cli.Count(log.Replay.Works, "job"), log.Replay.Diverged)
	if n := log.Replay.CannotReplay.Total(); n > 0 {
		line("", "%s could not be replayed", cli.Count(n, "job"))
	}
	for _, id := range r.Lost {
		line(a.Paint(a.Stdout, cli.Red, "lost"), "%s", id)
	}
	for _, s := range r.Stories {
		cli.Fprintf(w, "\n%s: %s\n", a.Paint(a.Stdout, cli.Bold, s.Why), s.Job.UniqueKey)
		jobs.Write(a, w, s.Job, s.History)
	}
}
