package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func limitRandomCases() []jobsCase {
	return []jobsCase{
		{name: "J19/random operations keep the bounds and leave no place unused", run: func(s *jobs) {
			s.limiter()
			fewerChecks()
			rapid.Check(struct{ *testing.T }{s.T}, func(t *rapid.T) {
				m := newLimitModel(s)
				t.Repeat(map[string]func(*rapid.T){
					"": m.check, "enqueue": m.enqueue, "claim": m.claim, "settle": m.settle, "settle again": m.settle, "change": m.change, "limit": m.limit, "lapse": m.lapse,
				})
				m.drain(t)
			})
		}},
		{name: "J19/the leases of three workers overlap no more than the concurrency of their key", real: true, run: func(s *jobs) { s.workersKeep(perTenant(2)) }},
		{name: "J19/three workers keep a strict order with retries", real: true, run: func(s *jobs) {
			s.workersKeep(policy.JobLimit{Name: "in-order", Key: []string{"meta.tenant"}, Concurrency: 1, Order: policy.OrderStrict})
		}},
		{name: "J19/three workers start no more jobs than the rate allows", real: true, run: func(s *jobs) {
			s.workersKeep(policy.JobLimit{Name: "rate", Key: []string{"meta.tenant"}, Rate: policy.Rate{Count: 20, Per: 250 * time.Millisecond, Burst: 5}})
		}},
		{name: "J19/a limit that changes while workers run holds within a second", real: true, run: func(s *jobs) { s.changeWhileWorking() }},
	}
}

// limitModel knows which limits the queues of a run have. What a store must keep does not depend on how it chooses between jobs.
type limitModel struct {
	s      *jobs
	queues []string
	limits map[job.LimitName]policy.JobLimit
	leases []job.Ref
	over   map[string]bool // buckets that held more than their limit when it changed
}

func newLimitModel(s *jobs) *limitModel {
	run := ids.Add(1)
	return &limitModel{
		s: s, queues: []string{fmt.Sprint("limits ", run, " a"), fmt.Sprint("limits ", run, " b")},
		limits: map[job.LimitName]policy.JobLimit{}, over: map[string]bool{},
	}
}

// name draws a limit of one of the queues or of the type "u" of this run.
func (m *limitModel) name(t *rapid.T) job.LimitName {
	names := []job.LimitName{{Queue: m.queues[0], Name: "x"}, {Queue: m.queues[0], Name: "y"}, {Queue: m.queues[1], Name: "x"}, {Type: m.queues[0] + " u", Name: "z"}}
	return rapid.SampledFrom(names).Draw(t, "limit")
}

func (m *limitModel) limit(t *rapid.T) {
	name := m.name(t)
	setting := job.LimitSetting{LimitName: name}
	if _, there := m.limits[name]; there && rapid.Bool().Draw(t, "remove") {
		delete(m.limits, name)
	} else {
		l := policy.JobLimit{Name: name.Name, Key: rapid.SampledFrom([][]string{nil, {"meta.k"}, {"type"}}).Draw(t, "key"), Concurrency: rapid.IntRange(1, 3).Draw(t, "concurrency")}
		if l.Concurrency == 1 && rapid.Bool().Draw(t, "strict") {
			l.Order = policy.OrderStrict
		}
		setting.Limit, m.limits[name] = &l, l
	}
	m.s.must(m.s.limiter().SetLimit(m.s.ctx, setting), nil)
	m.s.settled()
	m.over = map[string]bool{}
	for bucket, use := range m.use() {
		m.over[bucket] = use.held > use.limit
	}
}

// drain runs all jobs. None waits for ever, and no place is left.
func (m *limitModel) drain(t *rapid.T) {
	if !m.s.virtual { // retries come in an hour
		return
	}
	for _, r := range m.leases {
		_ = m.s.settle(r, job.KindComplete) // some have expired
	}
	left := job.Filter{States: []job.State{job.Waiting, job.Scheduled, job.Ready, job.Running}}
	for range 100 {
		m.s.lapse(2 * m.s.short)
		m.s.settled()
		n := 0
		for _, left.Queue = range m.queues {
			for _, r := range m.s.lease(left.Queue, 100, long) {
				m.s.must(m.s.settle(r.Ref(), job.KindComplete), nil)
			}
			n += len(m.s.list(left))
		}
		if n > 0 {
			continue
		}
		for name := range m.limits {
			if use, err := m.s.limiter().LimitUse(m.s.ctx, name, 10); err != nil || use.Held != 0 || use.Waiting != 0 {
				t.Fatalf("%s of %s%s: %+v, %v; no job is left", name.Name, name.Queue, name.Type, use, err)
			}
		}
		return
	}
	t.Fatalf("jobs are left under %+v", m.limits)
}

func (m *limitModel) enqueue(t *rapid.T) {
	list := make([]job.Insert, rapid.IntRange(1, 4).Draw(t, "jobs"))
	for i := range list {
		list[i] = job.Insert{
			Queue: rapid.SampledFrom(m.queues).Draw(t, "queue"), Type: rapid.SampledFrom([]string{"t", m.queues[0] + " u"}).Draw(t, "type"),
			Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Meta: map[string]string{"k": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "k")},
		}
		if m.s.virtual && rapid.Bool().Draw(t, "later") {
			list[i].RunAt = time.Now().Add(m.s.short)
		}
	}
	m.s.enqueue(list...)
}

func (m *limitModel) claim(t *rapid.T) {
	c := job.Claim{Worker: "w", Lease: long}
	if m.s.virtual && rapid.Bool().Draw(t, "short") {
		c.Lease = m.s.short
	}
	for _, q := range m.queues {
		c.Queues = append(c.Queues, job.Slots{Queue: q, Free: rapid.IntRange(0, 3).Draw(t, "free")})
	}
	list, err := m.s.Claim(m.s.ctx, c)
	m.s.must(err, nil)
	for _, r := range list {
		m.leases = append(m.leases, r.Ref())
	}
}

func (m *limitModel) settle(t *rapid.T) {
	if len(m.leases) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.leases)-1).Draw(t, "lease")
	x := job.Settlement{Ref: m.leases[i], Kind: rapid.SampledFrom(kinds()).Draw(t, "kind"), Error: "e", Reason: policy.ReasonError}
	if rapid.Bool().Draw(t, "delayed") {
		x.Delay = long
		if m.s.virtual {
			x.Delay = m.s.short
		}
	}
	m.leases = slices.Delete(m.leases, i, i+1)
	m.s.Settle(m.s.ctx, []job.Settlement{x}) // an error is of a lease that is over
}

func (m *limitModel) change(t *rapid.T) {
	action := rapid.SampledFrom([]job.Action{job.ActionRetry, job.ActionCancel, job.ActionDelete}).Draw(t, "action")
	m.s.change(action, job.Filter{Queue: rapid.SampledFrom(m.queues).Draw(t, "queue")}, rapid.IntRange(1, 2).Draw(t, "limit"))
}

func (m *limitModel) lapse(t *rapid.T) {
	if m.s.virtual {
		time.Sleep(time.Duration(rapid.IntRange(1, 3).Draw(t, "half steps")) * m.s.short / 2)
	}
}

// bucketUse is what the jobs of a bucket show.
type bucketUse struct {
	limit, held, waiting int
	strict               bool
	scheduled            int // jobs that have tried and wait for a retry
}

// buckets returns the buckets of a job.
func (m *limitModel) buckets(r *job.Record) map[string]policy.JobLimit {
	found := map[string]policy.JobLimit{}
	for name, l := range m.limits {
		if !name.Bounds(r) {
			continue
		}
		bucket := []string{name.String()}
		for _, field := range l.Key {
			bucket = append(bucket, map[string]string{"meta.k": r.Meta["k"], "type": r.Type}[field])
		}
		found[strings.Join(bucket, " ")] = l
	}
	return found
}

func (m *limitModel) use() map[string]*bucketUse {
	use := map[string]*bucketUse{}
	for _, q := range m.queues {
		for _, r := range m.s.list(job.Filter{Queue: q}) {
			for bucket, l := range m.buckets(r) {
				u := use[bucket]
				if u == nil {
					u = &bucketUse{limit: l.Concurrency, strict: l.Order == policy.OrderStrict}
					use[bucket] = u
				}
				switch r.State {
				case job.Ready, job.Running:
					u.held++
				case job.Waiting:
					u.waiting++
				case job.Scheduled:
					u.scheduled++
				case job.Completed, job.Dead, job.Cancelled:
				}
			}
		}
	}
	return use
}

// check checks the bounds; that every waiting job has a full bucket; and that the store counts what its jobs show.
func (m *limitModel) check(t *rapid.T) {
	m.s.settled()
	use := m.use()
	for bucket, u := range use {
		if u.held <= u.limit {
			m.over[bucket] = false
		}
		if u.held > u.limit && !m.over[bucket] {
			t.Fatalf("J19: %d jobs are ready or running in bucket %q, the limit is %d", u.held, bucket, u.limit)
		}
	}
	for _, q := range m.queues {
		for _, r := range m.s.list(job.Filter{Queue: q, States: []job.State{job.Waiting}}) {
			free := true
			for bucket := range m.buckets(r) {
				u := use[bucket]
				kept := u.strict && (u.scheduled > 0 || u.waiting > 1) // another job may have kept its place
				free = free && u.held < u.limit && !kept
			}
			if free {
				t.Fatalf("J19: job %s waits for %q, and all of its buckets have places: %+v", r.ID, r.WaitsFor, m.limits)
			}
		}
	}
	held, waiting := map[string]int{}, 0
	for bucket, u := range use {
		held[bucket] = u.held
	}
	for name, l := range m.limits {
		got, err := m.s.limiter().LimitUse(m.s.ctx, name, 10)
		m.s.must(err, nil)
		want := 0
		for bucket, n := range held {
			if bucket == fmt.Sprint(name) || len(bucket) > len(fmt.Sprint(name)) && bucket[:len(fmt.Sprint(name))+1] == fmt.Sprint(name)+" " {
				want += n
			}
		}
		if l.Order != policy.OrderStrict && got.Held != want {
			t.Fatalf("J19: %s: the store counts %d places, its jobs have %d", name, got.Held, want)
		}
		waiting += got.Waiting
	}
	listed := 0
	for _, q := range m.queues {
		listed += len(m.s.list(job.Filter{Queue: q, States: []job.State{job.Waiting}}))
	}
	same(t, "J19: jobs listed as waiting, and as counted", listed, waiting)
}

// workersKeep runs jobs of ten keys on three workers, some of which fail at first, and checks the ledger that the histories are.
func (s *jobs) workersKeep(l policy.JobLimit) {
	s.Helper()
	s.limit(l)
	const keys = 10
	n := sized(600, 150)
	var list []job.Insert
	for i := range n {
		list = append(list, job.Insert{MaxAttempts: 5, Meta: map[string]string{"tenant": strconv.Itoa(i % keys)}, Payload: []byte(strconv.Itoa(i))})
	}
	stored := idsOf(s.enqueue(list...))
	var done atomic.Int64
	var seen sync.Map
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	claims := &claimTimes{notified: s.Store.(notified), of: map[string][]time.Time{}}
	var workers sync.WaitGroup
	for i := range 3 {
		w := job.NewWorker(claims, job.WithName(strconv.Itoa(i)), job.WithQueues(map[string]int{queue: 20}), job.WithLogger(slog.New(slog.DiscardHandler)))
		w.HandleRaw("t", func(_ context.Context, j job.Job[[]byte]) error {
			time.Sleep(rand.N(2 * time.Millisecond))
			i, _ := strconv.Atoi(string(j.Payload))
			if _, again := seen.LoadOrStore(i, true); !again && i%7 == 0 {
				return job.Snooze(time.Millisecond)
			} else if !again && i%9 == 0 {
				return errors.New("the first attempt fails")
			}
			if done.Add(1) == int64(n) {
				cancel()
			}
			return nil
		})
		workers.Go(func() { s.report("Run", w.Run(ctx)) })
	}
	workers.Wait()
	s.ledger(stored, l)
	if l.Rate.Count > 0 {
		for _, starts := range claims.of {
			s.checkPace(starts, l.Rate)
		}
	}
}

type notified interface {
	job.Store
	job.Notifier
}

// claimTimes is a store that keeps the times at which its jobs were claimed, by the store's clock.
type claimTimes struct {
	notified
	mu sync.Mutex
	of map[string][]time.Time // by tenant
}

func (c *claimTimes) Claim(ctx context.Context, claim job.Claim) ([]*job.Record, error) {
	list, err := c.notified.Claim(ctx, claim)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range list {
		c.of[r.Meta["tenant"]] = append(c.of[r.Meta["tenant"]], r.ClaimedAt)
	}
	return list, err
}

// span is an attempt under a lease.
type span struct {
	from, to time.Time
	id       string
}

// ledger checks the attempts of all jobs against a limit by tenant, as the histories show them.
func (s *jobs) ledger(stored []string, l policy.JobLimit) {
	s.Helper()
	spans := map[string][]span{}
	for _, id := range stored {
		r, history := s.job(id)
		if r.State != job.Completed {
			s.Errorf("J19: job %s is %s, waiting for %q", id, r.State, r.WaitsFor)
		}
		for _, a := range history {
			key := r.Meta["tenant"]
			spans[key] = append(spans[key], span{a.Started, a.Finished, id})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(spans)) {
		list := spans[key]
		slices.SortFunc(list, func(a, b span) int { return a.from.Compare(b.from) })
		for i, x := range list {
			live := 1
			for _, before := range list[:i] {
				if before.to.After(x.from) {
					live++
				}
			}
			if l.Concurrency > 0 && live > l.Concurrency {
				s.Errorf("J19: %d leases of key %s are live at %v, the limit is %d", live, key, x.from, l.Concurrency)
			}
			if l.Order == policy.OrderStrict && i > 0 && x.id < list[i-1].id {
				s.Errorf("J19: key %s: job %s ran after %s", key, x.id, list[i-1].id)
			}
		}
	}
}

// checkPace checks that from any start to any later one there are no more starts than the burst and those that the rate allows in
// the time between.
func (s *jobs) checkPace(starts []time.Time, rate policy.Rate) {
	s.Helper()
	slices.SortFunc(starts, time.Time.Compare)
	step := rate.Per / time.Duration(rate.Count)
	for i, from := range starts {
		for j, to := range starts[i:] {
			if n := j + 1; n > rate.Burst+int(to.Sub(from)/step) {
				s.Errorf("J19: %d starts within %v, the limit is a burst of %d and one more in each %v", n, to.Sub(from), rate.Burst, step)
				return
			}
		}
	}
}

// changeWhileWorking raises and lowers a limit under load. A second after each change as many jobs run as it allows, and no more.
func (s *jobs) changeWhileWorking() {
	one := func(n int) policy.JobLimit { return policy.JobLimit{Name: "all", Concurrency: n} }
	s.limit(one(2))
	ctx, cancel := context.WithCancel(s.ctx)
	var running, most atomic.Int64
	release := make(chan struct{}) // a job for each value
	var workers sync.WaitGroup
	for i := range 3 {
		w := job.NewWorker(s.Store, job.WithName(strconv.Itoa(i)), job.WithQueues(map[string]int{queue: 20}), job.WithLogger(slog.New(slog.DiscardHandler)))
		w.HandleRaw("t", func(ctx context.Context, _ job.Job[[]byte]) error {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			defer running.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})
		workers.Go(func() { s.report("Run", w.Run(ctx)) })
	}
	defer func() { cancel(); close(release); workers.Wait() }()
	s.enqueue(make([]job.Insert, 100)...)
	reached := func(n int, within time.Duration) bool {
		for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if running.Load() == int64(n) {
				return true
			}
		}
		return running.Load() == int64(n)
	}
	if !reached(2, 10*time.Second) {
		s.Fatalf("J19: %d jobs run, the limit is 2", running.Load())
	}
	for _, n := range []int{8, 3, 12, 1} {
		s.set(job.LimitName{Queue: queue, Name: "all"}, one(n))
		for range int(running.Load()) - n { // a lower limit ends no job
			release <- struct{}{}
		}
		if !reached(n, time.Second) {
			s.Errorf("J19: %d jobs ran a second after the limit became %d", running.Load(), n)
		}
		most.Store(running.Load())
		for range 3 * n { // the next ones take the places of those that end
			release <- struct{}{}
		}
		if !reached(n, 10*time.Second) || most.Load() > int64(n) {
			s.Errorf("J19: up to %d jobs ran and %d run, the limit is %d", most.Load(), running.Load(), n)
		}
	}
}
