package storetest

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// redriveVariable holds the redrive that a process runs, and the store that it opens.
const redriveVariable = "TENET_STORETEST_REDRIVE"

// RedriveProcess runs the redrive that [KilledRedrives] gave to this process, and ends it. It returns at once in all other
// processes. Call it first in TestMain; open opens a store by the name that KilledRedrives was given.
func RedriveProcess(open func(name string) (job.Store, error)) {
	id, name, found := strings.Cut(os.Getenv(redriveVariable), " ")
	if !found {
		return
	}
	if err := runRedrive(id, name, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runRedrive writes the number of released jobs after each step.
func runRedrive(id, name string, open func(name string) (job.Store, error)) error {
	store, err := open(name)
	if err != nil {
		return err
	}
	stepper, ok := store.(job.RedriveStepper)
	if !ok {
		return fmt.Errorf("%T keeps no redrives", store)
	}
	runner := job.NewRedriveRunner(stepper, job.RedriveRunnerOptions{Logger: slog.New(slog.DiscardHandler)})
	_, err = runner.Follow(context.Background(), id, func(r job.Redrive) { fmt.Println(r.Released) })
	return err
}

// redriveKills is how often the process that runs a redrive is killed.
const redriveKills = 10

// KilledRedrives checks J23 under crashes: a process of this test binary runs a redrive of 1,000,000 jobs (2,000 with -short) and
// is killed ten times, while a worker completes the released jobs, or lets them die again. Each job must run once more. The store is empty,
// and a process can open it by the name.
func KilledRedrives(t *testing.T, store job.Store, name string) {
	base := suite{T: t, ctx: context.Background()}
	s := &jobs{suite: base, Store: store, Admin: store.(job.Admin), kept: map[string]bool{}, retried: map[string]bool{}}
	r := &redrives{s, store.(job.RedriveStepper)}
	n := sized(1_000_000, 2000)
	at := map[string]int{} // the number of each job
	for len(at) < n {
		for _, id := range r.dead(queue, 1000) {
			at[id] = len(at)
		}
	}
	made := r.create(job.RedrivePlan{MaxPending: n / 25})
	same(t, "jobs selected", made.Total, n)
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	ran := r.work(ctx, at)
	for kill := 1; kill <= redriveKills; kill++ {
		r.runUntil(made.ID, name, n*kill/(redriveKills+2))
	}
	r.runUntil(made.ID, name, n+1)
	stop()
	r.ranOnce(made.ID, at, <-ran)
}

// ranOnce checks that a redrive has ended, and that each of its jobs ran once.
func (r *redrives) ranOnce(id string, at, ran map[string]int) {
	r.Helper()
	n, again := len(at), 0
	for id, i := range at {
		if ran[id] != 1 {
			r.Errorf("job %d ran %d times", i, ran[id])
		}
		if diesAgain(i) {
			again++
		}
	}
	state, err := r.store.Redrive(r.ctx, id)
	r.must(err, nil)
	r.released(state)
	r.counts(state, job.RedriveCounts{Total: n, Released: n, Completed: n - again, Dead: again})
	if state.State != job.RedriveFinished || len(ran) != n || again == 0 {
		r.Errorf("%s (%s), %d jobs ran, %d are to die again", state.State, state.Reason, len(ran), again)
	}
}

// runUntil runs a redrive in a process, and kills it once it has released so many jobs. Beyond the last job it waits for its end.
func (r *redrives) runUntil(id, name string, released int) {
	r.Helper()
	child := exec.Command(os.Args[0]) //nolint:gosec // this test binary
	child.Env = append(os.Environ(), redriveVariable+"="+id+" "+name)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	r.must(err, nil)
	r.must(child.Start(), nil)
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, err := strconv.Atoi(lines.Text()); err == nil && n >= released && !killed {
			killed = true
			r.must(child.Process.Kill(), nil)
		}
	}
	if err := child.Wait(); killed != (err != nil) {
		r.Fatalf("the process was killed: %t; it ended with %v", killed, err)
	}
	if wanted := released <= len(r.kept); killed != wanted {
		r.Fatalf("the redrive ended before %d jobs were released", released)
	}
}

// work starts a worker, which runs jobs until ctx ends, and then sends how often each ran.
func (r *redrives) work(ctx context.Context, at map[string]int) <-chan map[string]int {
	worked := make(chan map[string]int, 1)
	go func() { worked <- r.runJobs(ctx, at) }()
	return worked
}

func (r *redrives) runJobs(ctx context.Context, at map[string]int) map[string]int {
	ran := map[string]int{}
	for ctx.Err() == nil {
		claimed, err := r.Claim(r.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 500}}, Types: []string{"t"}, Lease: long})
		if err != nil {
			r.Error(err)
			return ran
		}
		settlements := make([]job.Settlement, len(claimed))
		for i, c := range claimed {
			ran[c.ID]++
			settlements[i] = job.Settlement{Ref: c.Ref(), Kind: job.KindComplete, Reason: "success"}
			if diesAgain(at[c.ID]) {
				settlements[i].Kind, settlements[i].Error = job.KindDead, "again"
			}
		}
		if len(claimed) == 0 {
			time.Sleep(time.Millisecond)
		} else if errs := r.Settle(r.ctx, settlements); errs != nil {
			r.Error(errs)
			return ran
		}
	}
	return ran
}
