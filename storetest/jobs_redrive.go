package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

// redriveCases checks redrives. They are skipped where the store does not implement job.RedriveStepper.
func redriveCases() []jobsCase {
	cases := []suiteCase[*redrives]{
		{name: "the selection is fixed when the redrive is created, and counted exactly", run: (*redrives).selects},
		{name: "an invalid or repeated redrive is refused", run: (*redrives).refuses},
		{name: "redrives are listed newest first", run: (*redrives).lists},
		{name: "every job is released once, and its outcome counted", run: (*redrives).releases},
		{name: "a job that left the dead state otherwise is skipped", run: (*redrives).skips},
		{name: "the others follow a canary that completed", run: (*redrives).canary},
		{name: "a canary that dies again stops the redrive", run: (*redrives).canaryDies},
		{name: "the redrive stops when too many jobs die again", run: (*redrives).stops},
		{name: "the rate is kept by all runners together", run: (*redrives).rate},
		{name: "a paused redrive releases nothing and counts outcomes", run: (*redrives).pauses},
		{name: "undo puts back what has not run, as it was", run: (*redrives).undoes},
		{name: "a runner with a hold keeps the others away", run: (*redrives).holds},
		{name: "released jobs are notified", run: (*redrives).notifies},
		{name: "the selection of an ended redrive is removed", run: (*redrives).discards},
		{name: "runners at once release each job once", real: true, run: (*redrives).concurrent},
	}
	return lists.Map(cases, func(c suiteCase[*redrives]) jobsCase {
		return jobsCase{name: "J23/" + c.name, real: c.real, run: func(s *jobs) { c.run(&redrives{s, optional[job.RedriveStepper](s, s.Store)}) }}
	})
}

// redrives is a store that keeps redrives.
type redrives struct {
	*jobs
	store job.RedriveStepper
}

// dead stores n jobs of a queue, which die with the error "boom".
func (r *redrives) dead(from string, n int) []string {
	r.Helper()
	list := make([]job.Insert, n)
	for i := range list {
		list[i].Queue = from
	}
	ids := idsOf(r.enqueue(list...))
	r.finish(from, n, job.KindDead)
	return ids
}

// finish claims n jobs of a queue, which must be there, and settles them.
func (r *redrives) finish(from string, n int, kind job.Kind) {
	r.Helper()
	claimed := r.lease(from, n, long)
	same(r, "jobs claimed of "+from, len(claimed), n)
	settlements := lists.Map(claimed, func(c *job.Record) job.Settlement { return job.Settlement{Ref: c.Ref(), Kind: kind, Error: "boom"} })
	if errs := r.Settle(r.ctx, settlements); errs != nil {
		r.Fatal(errs)
	}
}

// create makes a redrive of the dead jobs of "q".
func (r *redrives) create(plan job.RedrivePlan) job.Redrive {
	r.Helper()
	made, err := r.store.CreateRedrive(r.ctx, job.NewRedrive{ID: newID(), Filter: job.Filter{Queue: queue}, Actor: "somebody", RedrivePlan: plan})
	r.must(err, nil)
	return made
}

// step takes a step without a hold.
func (r *redrives) step(id string) (job.Redrive, job.RedriveVerdict) {
	r.Helper()
	state, v, err := r.store.StepRedrive(r.ctx, id, 0)
	r.must(err, nil)
	r.released(state)
	return state, v
}

// released notes that any job may have been set back.
func (r *redrives) released(state job.Redrive) {
	if state.Released > 0 {
		maps.Copy(r.retried, r.kept)
	}
}

func (r *redrives) update(id string, c job.RedriveChange) job.Redrive {
	r.Helper()
	state, err := r.store.UpdateRedrive(r.ctx, id, c)
	r.must(err, nil)
	return state
}

// follow runs a redrive until it has nothing left to do.
func (r *redrives) follow(id string) job.Redrive {
	r.Helper()
	state, err := job.NewRedriveRunner(r.store, job.RedriveRunnerOptions{Logger: slog.New(slog.DiscardHandler)}).Follow(r.ctx, id, nil)
	r.must(err, nil)
	r.released(state)
	return state
}

// counts fails the case unless the redrive has these counts.
func (r *redrives) counts(got job.Redrive, want job.RedriveCounts) {
	r.Helper()
	if got.RedriveCounts != want {
		r.Fatalf("the redrive is %s (%s), counts %+v, want %+v", got.State, got.Reason, got.RedriveCounts, want)
	}
}

func (r *redrives) selects() {
	ids := r.dead("a", 3)
	r.dead("b", 2)
	r.add(job.Insert{Queue: "a"})
	f := job.Filter{Terms: filter.Terms{{Field: job.FieldQueue, Values: filter.Exactly("a", "b")}}, ErrorContains: "boom", States: []job.State{job.Ready}}
	want := []job.RedriveGroup{{Queue: "a", Type: "t", Jobs: 3}, {Queue: "b", Type: "t", Jobs: 2}}
	preview, err := r.store.PreviewRedrive(r.ctx, f)
	r.must(err, nil)
	noDiff(r, "preview", cmp.Diff(want, preview))
	made, err := r.store.CreateRedrive(r.ctx, job.NewRedrive{ID: newID(), Filter: f, Actor: "somebody", CanaryShare: 0.3, RedrivePlan: job.RedrivePlan{StopShare: 0.5}})
	r.must(err, nil)
	if diff := cmp.Diff(want, made.Groups); diff != "" || made.Filter != "error:boom queue:a,b" {
		r.Errorf("filter %q, groups (-want +got):\n%s", made.Filter, diff)
	}
	if made.State != job.RedriveRunning || made.Actor != "somebody" || made.Canary != 2 || made.StopLeast != 3 || made.MaxPending != 1000 || made.Created.IsZero() {
		r.Errorf("%+v", made)
	}
	r.counts(made, job.RedriveCounts{Total: 5})
	r.dead("a", 1) // is not of the selection
	got, err := r.store.Redrive(r.ctx, made.ID)
	r.must(err, nil)
	noDiff(r, "read again", cmp.Diff(made, got, cmpopts.EquateEmpty()))
	for _, id := range ids {
		r.in(id, job.Dead)
	}
}

func (r *redrives) refuses() {
	r.dead(queue, 1)
	all := job.NewRedrive{ID: newID(), Filter: job.Filter{Queue: queue}}
	for name, change := range map[string]func(*job.NewRedrive){
		"no ID":              func(n *job.NewRedrive) { n.ID = "" },
		"a negative rate":    func(n *job.NewRedrive) { n.Rate = -1 },
		"a negative canary":  func(n *job.NewRedrive) { n.Canary = -1 },
		"two canaries":       func(n *job.NewRedrive) { n.Canary, n.CanaryShare = 1, 0.5 },
		"a share above 1":    func(n *job.NewRedrive) { n.StopShare = 1.5 },
		"an actor too long":  func(n *job.NewRedrive) { n.Actor = strings.Repeat("x", 256) },
		"a negative pending": func(n *job.NewRedrive) { n.MaxPending = -1 },
	} {
		n := all
		change(&n)
		if _, err := r.store.CreateRedrive(r.ctx, n); !isRedriveError(err) {
			r.Errorf("%s: %v", name, err)
		}
	}
	none := all
	none.Filter.Queue = "empty"
	r.must(errorOf(r.store.CreateRedrive(r.ctx, none)), job.ErrNotFound)
	made, err := r.store.CreateRedrive(r.ctx, all)
	r.must(err, nil)
	r.must(errorOf(r.store.CreateRedrive(r.ctx, all)), job.ErrConflict)
	for _, id := range []string{newID(), "x"} {
		_, err = r.store.Redrive(r.ctx, id)
		r.missing(err, job.NotFoundError{What: "redrive", ID: id})
		r.must(errorOf(r.store.UpdateRedrive(r.ctx, id, job.RedriveChange{Action: job.RedrivePause})), job.ErrNotFound)
		_, _, err = r.store.StepRedrive(r.ctx, id, 0)
		r.must(err, job.ErrNotFound)
	}
	if _, err = r.store.UpdateRedrive(r.ctx, made.ID, job.RedriveChange{Action: job.RedriveSetRate, Rate: -1}); !isRedriveError(err) {
		r.Errorf("a negative rate: %v", err)
	}
	r.update(made.ID, job.RedriveChange{Action: job.RedriveAbort, Actor: "me"})
	r.must(errorOf(r.store.UpdateRedrive(r.ctx, made.ID, job.RedriveChange{Action: job.RedriveResume})), job.ErrConflict)
}

func isRedriveError(err error) bool {
	_, ok := errors.AsType[*job.RedriveError](err)
	return ok
}

func (r *redrives) lists() {
	r.dead(queue, 1)
	var made []string
	for range 5 {
		made = append(made, r.create(job.RedrivePlan{}).ID)
	}
	slices.Reverse(made)
	list := pages(r, func(last job.Redrive) ([]job.Redrive, error) {
		return r.store.Redrives(r.ctx, job.RedriveQuery{Below: last.ID, Limit: 2})
	})
	noDiff(r, "redrives", cmp.Diff(made, lists.Map(list, func(one job.Redrive) string { return one.ID })))
	for _, id := range made[1:] {
		r.update(id, job.RedriveChange{Action: job.RedrivePause})
	}
	active, err := r.store.Redrives(r.ctx, job.RedriveQuery{Active: true})
	r.must(err, nil)
	if len(active) != 1 || active[0].ID != made[0] {
		r.Errorf("active: %d redrives %v", len(active), active)
	}
}

func (r *redrives) releases() {
	ids := r.dead(queue, 4)
	made := r.create(job.RedrivePlan{})
	state, v := r.step(made.ID)
	same(r, "jobs to release", v.Release, 4)
	r.counts(state, job.RedriveCounts{Total: 4, Released: 4})
	claimed := r.lease(queue, 4, long)
	if !slices.Equal(namesOf(claimed), ids) || claimed[0].Failures != 0 || claimed[0].Fence != 2 {
		r.Fatalf("claimed %v in %+v, want %v", namesOf(claimed), claimed, ids)
	}
	r.must(r.settle(claimed[0].Ref(), job.KindComplete), nil)
	r.must(r.settle(claimed[1].Ref(), job.KindDead, fails("again", 0)), nil)
	r.must(r.settle(claimed[2].Ref(), job.KindCancel), nil)
	state, v = r.step(made.ID)
	if v.State != "" || v.Release != 0 || state.Phase() != job.PhaseSettling {
		r.Fatalf("%+v, %s", v, state.Phase())
	}
	r.counts(state, job.RedriveCounts{Total: 4, Released: 4, Completed: 1, Dead: 1, Cancelled: 1})
	r.must(r.settle(claimed[3].Ref(), job.KindComplete), nil)
	r.change(job.ActionDelete, job.Filter{IDs: ids[3:]}, 1)
	state = r.follow(made.ID)
	r.counts(state, job.RedriveCounts{Total: 4, Released: 4, Completed: 1, Dead: 1, Cancelled: 1, Removed: 1})
	if state.State != job.RedriveFinished || state.Ended.IsZero() || !slices.Equal(state.DeadJobs, ids[1:2]) {
		r.Errorf("%+v", state)
	}
	r.in(ids[1], job.Dead)
	r.claimed()
}

func (r *redrives) skips() {
	ids := r.dead(queue, 3)
	held := r.add(job.Insert{Queue: "keys", UniqueKey: "k"})
	r.finish("keys", 1, job.KindDead)
	made, err := r.store.CreateRedrive(r.ctx, job.NewRedrive{ID: newID()})
	r.must(err, nil)
	other := r.add(job.Insert{Queue: "keys", UniqueKey: "k"}) // takes the key
	r.change(job.ActionDelete, job.Filter{IDs: ids[:1]}, 1)
	r.change(job.ActionRetry, job.Filter{IDs: ids[1:2]}, 1)
	r.finish(queue, 1, job.KindDead) // ids[1] again
	state, _ := r.step(made.ID)
	r.counts(state, job.RedriveCounts{Total: 4, Released: 1, Skipped: 3})
	r.in(ids[1], job.Dead)
	r.in(ids[2], job.Ready)
	r.in(held, job.Dead)
	r.in(other, job.Ready)
}

func (r *redrives) canary() {
	r.dead(queue, 5)
	made := r.create(job.RedrivePlan{Canary: 2})
	state, v := r.step(made.ID)
	if v.Release != 2 || state.Phase() != job.PhaseCanary {
		r.Fatalf("%+v", v)
	}
	r.finish(queue, 1, job.KindComplete)
	state, v = r.step(made.ID)
	if v.Release != 0 || v.Wait == 0 || state.Phase() != job.PhaseCanary {
		r.Fatalf("%+v", v)
	}
	r.finish(queue, 1, job.KindComplete)
	state, _ = r.step(made.ID)
	r.counts(state, job.RedriveCounts{Total: 5, Released: 5, Completed: 2})
	r.finish(queue, 3, job.KindDead)
	state = r.follow(made.ID)
	r.counts(state, job.RedriveCounts{Total: 5, Released: 5, Completed: 2, Dead: 3})
	same(r, "the state for the reason "+state.Reason, state.State, job.RedriveFinished)
}

func (r *redrives) canaryDies() {
	ids := r.dead(queue, 4)
	made := r.create(job.RedrivePlan{Canary: 2})
	r.step(made.ID)
	r.finish(queue, 1, job.KindDead)
	judged := 0
	runner := job.NewRedriveRunner(r.store, job.RedriveRunnerOptions{Logger: slog.New(slog.DiscardHandler), Judged: func(_ context.Context, state job.Redrive, v job.RedriveVerdict) error {
		if judged++; judged == 1 {
			return errors.New("the log is away")
		}
		if state.State != job.RedriveRunning || v.State != job.RedriveStopped || !strings.HasPrefix(v.Reason, "canary: of 2 jobs 1 died again") {
			r.Errorf("judged %+v in state %s", v, state.State)
		}
		return nil
	}})
	if _, err := runner.Follow(r.ctx, made.ID, nil); err == nil {
		r.Error("a judgement that was not put on record took effect")
	}
	state, v := r.step(made.ID)
	if state.State != job.RedriveRunning || v.Release != 0 {
		r.Fatalf("%s, %+v", state.State, v)
	}
	r.finish(queue, 1, job.KindComplete)
	state, err := runner.Follow(r.ctx, made.ID, nil)
	r.must(err, nil)
	r.counts(state, job.RedriveCounts{Total: 4, Released: 2, Completed: 1, Dead: 1})
	if state.State != job.RedriveStopped || state.Reason == "" || state.Ended.IsZero() {
		r.Errorf("%s: %s", state.State, state.Reason)
	}
	r.in(ids[2], job.Dead)
	r.in(ids[3], job.Dead)
}

func (r *redrives) stops() {
	r.dead(queue, 20)
	made := r.create(job.RedrivePlan{StopShare: 0.25, StopLeast: 2, MaxPending: 4})
	state, _ := r.step(made.ID)
	same(r, "jobs released with at most 4 pending", state.Released, 4)
	r.finish(queue, 3, job.KindComplete)
	r.finish(queue, 1, job.KindDead) // a fourth, but only one
	state, _ = r.step(made.ID)
	r.counts(state, job.RedriveCounts{Total: 20, Released: 8, Completed: 3, Dead: 1})
	r.finish(queue, 1, job.KindDead)
	r.step(made.ID) // judges; nobody ends it
	state, v := r.step(made.ID)
	if v.State != job.RedriveStopped || v.Release != 0 {
		r.Fatalf("%+v", v)
	}
	r.counts(state, job.RedriveCounts{Total: 20, Released: 8, Completed: 3, Dead: 2})
	r.finish(queue, 3, job.KindComplete)
	state = r.follow(made.ID)
	r.counts(state, job.RedriveCounts{Total: 20, Released: 8, Completed: 6, Dead: 2})
	if state.State != job.RedriveStopped || !strings.Contains(state.Reason, "2 of ") {
		r.Errorf("%s: %s", state.State, state.Reason)
	}
}

func (r *redrives) rate() {
	r.dead(queue, 30)
	made := r.create(job.RedrivePlan{Rate: 0.001})
	for range 3 {
		if state, v := r.step(made.ID); state.Released != 1 || v.Wait == 0 {
			r.Fatalf("%d released at 1 in 1,000 s, %+v", state.Released, v)
		}
	}
	made = r.update(made.ID, job.RedriveChange{Action: job.RedriveSetRate, Rate: 1e6})
	if state, _ := r.step(made.ID); state.Released < 2 {
		r.Errorf("%d released after the rate was raised", state.Released)
	}
	if !r.virtual {
		return
	}
	r.update(made.ID, job.RedriveChange{Action: job.RedriveAbort})
	made = r.create(job.RedrivePlan{Rate: 10})
	began := time.Now()
	for at := 1; at < 10; at++ {
		want := at
		for range 2 { // two runners
			state, _ := r.step(made.ID)
			same(r, fmt.Sprintf("jobs released after %v at 10/s", time.Since(began)), state.Released, want)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(time.Minute)
	state, _ := r.step(made.ID)
	same(r, "jobs released after a minute without a runner, 9 + 11", state.Released, 20)
}

func (r *redrives) pauses() {
	r.dead(queue, 4)
	made := r.create(job.RedrivePlan{Canary: 1})
	r.step(made.ID)
	r.update(made.ID, job.RedriveChange{Action: job.RedrivePause})
	r.finish(queue, 1, job.KindComplete)
	state, v := r.step(made.ID)
	if v.Release != 0 || state.State != job.RedrivePaused {
		r.Fatalf("%+v", v)
	}
	r.counts(state, job.RedriveCounts{Total: 4, Released: 1, Completed: 1})
	if state.Active() {
		r.Error("a paused redrive with nothing pending is active")
	}
	r.update(made.ID, job.RedriveChange{Action: job.RedriveResume})
	state, _ = r.step(made.ID)
	r.counts(state, job.RedriveCounts{Total: 4, Released: 4, Completed: 1})
	r.update(made.ID, job.RedriveChange{Action: job.RedriveAbort, Actor: "me"})
	r.finish(queue, 3, job.KindComplete)
	state = r.follow(made.ID)
	r.counts(state, job.RedriveCounts{Total: 4, Released: 4, Completed: 4})
	if state.State != job.RedriveAborted || state.Reason != "by me" {
		r.Errorf("%s: %s", state.State, state.Reason)
	}
}

func (r *redrives) undoes() {
	before := map[string]*job.Record{}
	history := map[string][]job.Attempt{}
	ids := r.dead(queue, 4)
	refusedID := r.add(job.Insert{}) // fails once, then is refused and buried, with the refusals still on the record
	for _, kind := range []job.Kind{job.KindRetry, job.KindRefuse, job.KindRefuse, job.KindBury} {
		c := r.take(long)
		r.must(r.settle(c.Ref(), kind, fails("why", 0)), nil)
	}
	keyed := r.start(job.Insert{UniqueKey: "k", MaxAttempts: 1}, long)
	r.must(r.settle(keyed.Ref(), job.KindDead, fails("boom", 0)), nil)
	ids = append(ids, refusedID, keyed.ID)
	for _, id := range ids {
		before[id], history[id] = r.job(id)
	}
	made := r.create(job.RedrivePlan{})
	r.step(made.ID)
	run := r.take(long) // ids[0]
	interrupted := r.take(long)
	r.must(r.settle(interrupted.Ref(), job.KindRelease), nil) // ids[1]: ready, but it has been claimed
	r.update(made.ID, job.RedriveChange{Action: job.RedriveUndo, Actor: "me"})
	state := r.update(made.ID, job.RedriveChange{Action: job.RedriveUndo, Actor: "me"})
	if state.State != job.RedriveAborted || state.Phase() != job.PhaseUndoing {
		r.Fatalf("%s, %s", state.State, state.Phase())
	}
	state, _ = r.step(made.ID)
	r.counts(state, job.RedriveCounts{Total: 6, Released: 6, Undone: 4})
	if state.Undo {
		r.Error("the undo goes on")
	}
	r.must(r.settle(run.Ref(), job.KindComplete), nil)
	r.finish(queue, 1, job.KindComplete)
	state = r.follow(made.ID)
	r.counts(state, job.RedriveCounts{Total: 6, Released: 6, Undone: 4, Completed: 2})
	for _, id := range ids[2:] {
		got, past := r.job(id)
		noDiff(r, "job", cmp.Diff(before[id], got, cmpopts.EquateEmpty()))
		noDiff(r, "history", cmp.Diff(history[id], past, cmpopts.EquateEmpty()))
	}
	r.add(job.Insert{UniqueKey: "k"}) // the key is free
	if len(r.lease(queue, 10, long)) != 1 {
		r.Error("a job that was put back is ready")
	}
	r.must(errorOf(r.store.UpdateRedrive(r.ctx, made.ID, job.RedriveChange{Action: job.RedriveUndo})), job.ErrConflict)
}

func (r *redrives) holds() {
	r.dead(queue, 2)
	made, err := r.store.CreateRedrive(r.ctx, job.NewRedrive{ID: newID(), Filter: job.Filter{Queue: queue}, HeldFor: time.Hour, RedrivePlan: job.RedrivePlan{MaxPending: 1}})
	r.must(err, nil)
	if state, v := r.step(made.ID); state.Released != 0 || v.Wait == 0 {
		r.Errorf("released under a hold: %+v", v)
	}
	state, _, err := r.store.StepRedrive(r.ctx, made.ID, r.short)
	r.must(err, nil)
	r.counts(state, job.RedriveCounts{Total: 2, Released: 1})
	r.released(state)
	if r.virtual {
		r.finish(queue, 1, job.KindComplete)
		r.lapse(2 * time.Hour)
		state, _ = r.step(made.ID)
		r.counts(state, job.RedriveCounts{Total: 2, Released: 2, Completed: 1})
	}
}

func (r *redrives) notifies() {
	r.dead(queue, 1)
	made := r.create(job.RedrivePlan{})
	r.notified(r.jobs, func() { r.step(made.ID) })
}

func (r *redrives) discards() {
	n := sized(50_000, 2500)
	for range n / 500 {
		r.dead(queue, 500)
	}
	made := r.create(job.RedrivePlan{MaxPending: 1})
	r.step(made.ID)
	r.update(made.ID, job.RedriveChange{Action: job.RedriveAbort})
	r.finish(queue, 1, job.KindComplete)
	state := r.follow(made.ID)
	if state.Active() || state.Progress.Discarded != n-1 {
		r.Errorf("%d of %d jobs were discarded", state.Progress.Discarded, n-1)
	}
	r.counts(state, job.RedriveCounts{Total: n, Released: 1, Completed: 1})
}

// concurrent runs several runners on two handles beside workers that complete or bury what they get, and checks that each job ran
// once more.
func (r *redrives) concurrent() {
	n := sized(20_000, 2500)
	at := map[string]int{} // the number of each job
	for len(at) < n {
		for _, id := range r.dead(queue, 500) {
			at[id] = len(at)
		}
	}
	made := r.create(job.RedrivePlan{Canary: 10, MaxPending: 900})
	stores := []job.RedriveStepper{r.store, r.store}
	if r.options.Second != nil {
		r.second(func(other *jobs) {
			r.race(made.ID, append(stores, other.Store.(job.RedriveStepper)), at)
		})
	} else {
		r.race(made.ID, stores, at)
	}
	for id, i := range at {
		if diesAgain(i) {
			r.in(id, job.Dead)
		} else if i%97 == 0 {
			r.in(id, job.Completed)
		}
	}
}

// diesAgain says which jobs of concurrent die again: some, and none of the canary.
func diesAgain(i int) bool { return i > 10 && i%50 == 7 }

func (r *redrives) race(id string, stores []job.RedriveStepper, at map[string]int) {
	r.Helper()
	ctx, stop := context.WithTimeout(r.ctx, 5*time.Minute)
	defer stop()
	ran := r.work(ctx, at)
	atOnce(len(stores), func(i int) {
		runner := job.NewRedriveRunner(stores[i], job.RedriveRunnerOptions{Logger: slog.New(slog.DiscardHandler)})
		_, err := runner.Follow(ctx, id, nil)
		r.report("Follow", err)
	})
	stop()
	r.ranOnce(id, at, <-ran)
}
