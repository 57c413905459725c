package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// JobsOptions says how the suite opens and runs a store.
type JobsOptions struct {
	// Open returns a fresh, empty store on each call. The suite closes it. Required. The store implements job.Admin;
	// job.Notifier and job.Elector are checked where it has them.
	Open func(t *testing.T) job.Store
	// Second opens another handle on the data of a store that Open returned, as another process would. The suite closes it
	// before the first. Nil for stores that one process keeps for itself.
	Second func(t *testing.T, first job.Store) job.Store
	// Bubble runs a case in virtual time: synctest.Test for stores that take their time from package time. Nil runs in
	// real time.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Advance moves the clock of the stores by d at once, for the rest of the test: for stores that take their time from a
	// server. Nil waits.
	Advance func(t *testing.T, d time.Duration)
	// Short is the lease and the delay of cases that wait for its end. Default: 10 s in a bubble, 10 min with Advance, and
	// otherwise 500 ms. Unless it runs in a bubble, no operation may take as long as half of it.
	Short time.Duration
}

// Jobs checks that a store keeps the contract of job.Store and job.Admin.
func Jobs(t *testing.T, o JobsOptions) {
	runCases(t, timing{o.Bubble, o.Advance, o.Short}, func(s suite) *jobs { return open(s, o) },
		stateCases(), waitingCases(), startCases(), historyCases(), leaseCases(), orderCases(), enqueueCases(), uniqueCases(), valueCases(), adminCases(), activityCases(),
		changeCases(), redriveCases(), causeCases(), maintenanceCases(), sharedCases(), concurrencyCases(), workerCases(), eventCases(), settingCases(), limitCases(), searchCases(), randomCases(),
		needCases(), failedNeedCases(), combinedFlowCases(), removedFlowCases(), randomFlowCases(),
	)
}

type jobsCase = suiteCase[*jobs]

// jobs is a store under test and what the case did to it.
type jobs struct {
	suite
	job.Store
	job.Admin

	options JobsOptions
	closed  bool
	kept    map[string]bool // jobs that must be there in the end
	retried map[string]bool // jobs whose attempts an operator set back
}

const (
	long  = time.Hour // a lease that outlives the case
	queue = "q"
)

func open(base suite, o JobsOptions) *jobs {
	base.Helper()
	store := o.Open(base.T)
	admin, ok := store.(job.Admin)
	if !ok {
		base.Fatalf("%T does not implement job.Admin, which the suite looks through", store)
	}
	s := &jobs{suite: base, Store: store, Admin: admin, options: o, kept: map[string]bool{}, retried: map[string]bool{}}
	s.Cleanup(func() {
		if s.closed {
			return
		}
		s.checkInvariants()
		s.report("Close", store.Close())
	})
	return s
}

// ids numbers the jobs of a test binary: every job of every case has its own ID, in ascending order.
var ids atomic.Int64

// newID is a UUIDv7 that is greater than all before it.
func newID() string { return fmt.Sprintf("01990000-0000-7000-8000-%012x", ids.Add(1)) }

// enqueue stores jobs after giving them an ID, the type "t" and the queue "q" where they have none.
func (s *jobs) enqueue(list ...job.Insert) []job.Receipt {
	s.Helper()
	for i := range list {
		fill(&list[i])
	}
	receipts, err := s.Enqueue(s.ctx, list)
	if err != nil || len(receipts) != len(list) {
		s.Fatalf("Enqueue of %d jobs: %d receipts, %v", len(list), len(receipts), err)
	}
	for _, r := range receipts {
		s.kept[r.ID] = true
	}
	return receipts
}

func fill(in *job.Insert) {
	if in.ID == "" {
		in.ID = newID()
	}
	if in.Type == "" {
		in.Type = "t"
	}
	if in.Queue == "" {
		in.Queue = queue
	}
}

// add stores one job and returns its ID.
func (s *jobs) add(in job.Insert) string {
	s.Helper()
	return s.enqueue(in)[0].ID
}

// lease claims up to n jobs of a queue.
func (s *jobs) lease(from string, n int, d time.Duration) []*job.Record {
	s.Helper()
	list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: from, Free: n}}, Lease: d})
	s.need("Claim", err)
	return list
}

// leaseTypes claims up to n jobs of "q" that are of these types.
func (s *jobs) leaseTypes(n int, types ...string) []*job.Record {
	s.Helper()
	list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: n}}, Types: types, Lease: long})
	s.need("Claim", err)
	return list
}

// take claims the next job of "q", which must be there.
func (s *jobs) take(d time.Duration) *job.Record {
	s.Helper()
	list := s.lease(queue, 1, d)
	same(s, "jobs claimed", len(list), 1)
	return list[0]
}

// start stores a job and claims it.
func (s *jobs) start(in job.Insert, d time.Duration) *job.Record {
	s.Helper()
	id := s.add(in)
	r := s.take(d)
	same(s, "the job claimed", r.ID, id)
	return r
}

// attempt stores a job, claims it for long and settles it.
func (s *jobs) attempt(in job.Insert, kind job.Kind, change ...func(*job.Settlement)) *job.Record {
	s.Helper()
	r := s.start(in, long)
	s.must(s.settle(r.Ref(), kind, change...), nil)
	return r
}

// claimed claims as many jobs of "q" as there are, which must have these IDs.
func (s *jobs) claimed(want ...string) []*job.Record {
	s.Helper()
	return s.these(s.lease(queue, 100, long), want...)
}

// claims claims as many jobs of a queue as there are, which must be n.
func (s *jobs) claims(from string, n int) []*job.Record {
	s.Helper()
	list := s.lease(from, 100, long)
	same(s, "jobs claimed of "+from, len(list), n)
	return list
}

// these fails the case unless a list has the jobs of these IDs, in this order.
func (s *jobs) these(list []*job.Record, want ...string) []*job.Record {
	s.Helper()
	noDiff(s, "jobs", cmp.Diff(want, namesOf(list), cmpopts.EquateEmpty()))
	return list
}

// settle writes one settlement and returns its error.
func (s *jobs) settle(r job.Ref, kind job.Kind, change ...func(*job.Settlement)) error {
	s.Helper()
	settlement := job.Settlement{Ref: r, Kind: kind}
	if kind == job.KindComplete {
		settlement.Reason = policy.ReasonSuccess // as workers do
	}
	for _, c := range change {
		c(&settlement)
	}
	return oneError(s, s.Settle(s.ctx, []job.Settlement{settlement}))
}

// extend extends one lease and returns its error.
func (s *jobs) extend(r job.Ref, d time.Duration) error {
	s.Helper()
	return oneError(s, s.Extend(s.ctx, []job.Ref{r}, d))
}

func oneError(s *jobs, errs []error) error {
	s.Helper()
	if errs == nil {
		return nil
	}
	same(s, "errors for one lease", len(errs), 1)
	return errs[0]
}

// maintain promotes and reclaims; it removes nothing.
func (s *jobs) maintain() job.Maintained {
	s.Helper()
	return s.maintainWith(job.Maintenance{Limit: 100_000})
}

func (s *jobs) maintainWith(m job.Maintenance) job.Maintained {
	s.Helper()
	done, err := s.Maintain(s.ctx, m)
	s.need("Maintain", err)
	return done
}

// maintainAfter lets d pass, promotes and reclaims.
func (s *jobs) maintainAfter(d time.Duration) {
	s.Helper()
	s.lapse(d)
	s.maintain()
}

// job returns a job and its history.
func (s *jobs) job(id string) (*job.Record, []job.Attempt) {
	s.Helper()
	r, history, err := s.Get(s.ctx, id)
	s.need(fmt.Sprintf("Get(%s)", id), err)
	return r, history
}

// record returns a job.
func (s *jobs) record(id string) *job.Record {
	s.Helper()
	r, _ := s.job(id)
	return r
}

// in fails the case unless the job is in a state.
func (s *jobs) in(id string, want job.State) *job.Record {
	s.Helper()
	r := s.record(id)
	same(s, "the state of the job", r.State, want)
	return r
}

// change applies an operator's action and returns the IDs of the jobs changed.
func (s *jobs) change(a job.Action, f job.Filter, limit int) []string {
	s.Helper()
	changed, err := s.Change(s.ctx, a, f, limit)
	s.need(fmt.Sprintf("Change(%s)", a), err)
	for _, id := range changed {
		switch a {
		case job.ActionRetry:
			s.retried[id] = true
		case job.ActionDelete:
			delete(s.kept, id)
		}
	}
	return changed
}

// list returns all jobs that match.
func (s *jobs) list(f job.Filter) []*job.Record {
	s.Helper()
	list, err := s.List(s.ctx, f, "", 100_000)
	s.need("List", err)
	return list
}

// stored fails the case unless the store has n jobs.
func (s *jobs) stored(n int) {
	s.Helper()
	same(s, "jobs in the store", len(s.list(job.Filter{})), n)
}

// clock is the store's clock, as the creation of a job in a queue of its own shows it.
func (s *jobs) clock() time.Time {
	s.Helper()
	return s.record(s.add(job.Insert{Queue: "clock"})).CreatedAt
}

// almostElapse lets almost d pass: all but a microsecond in virtual time, a quarter of it otherwise.
func (s *jobs) almostElapse(d time.Duration) {
	switch {
	case s.virtual:
		time.Sleep(d - time.Microsecond)
	case s.advance != nil:
		s.advance(s.T, d/4)
	default:
		time.Sleep(d / 4)
	}
}

// sortToClaim sorts jobs of a queue in the order in which they are claimed.
func sortToClaim(list []*job.Record) {
	slices.SortFunc(list, func(a, b *job.Record) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
}

// matching returns the IDs of those that match.
func matching(f *job.Filter, list []*job.Record) []string {
	return namesOf(slices.DeleteFunc(slices.Clone(list), func(r *job.Record) bool { return !f.Matches(r) }))
}

func namesOf(list []*job.Record) []string {
	return lists.Map(list, func(r *job.Record) string { return r.ID })
}

func idsOf(receipts []job.Receipt) []string {
	return lists.Map(receipts, func(r job.Receipt) string { return r.ID })
}
