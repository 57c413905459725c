package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func randomCases() []jobsCase {
	return []jobsCase{{name: "J1/random operations agree with the model", run: func(s *jobs) {
		// rapid must not see a *testing.T: it would ask for its deadline, which a bubble forbids.
		fewerChecks()
		rapid.Check(struct{ *testing.T }{s.T}, func(t *rapid.T) {
			m := newModel(s, t)
			t.Repeat(map[string]func(*rapid.T){
				"": m.compare, "enqueue": m.enqueue, "claim": m.claim, "settle": m.settle, "settle again": m.settle, "extend": m.extend, "change": m.change, "pause": m.pause,
				"create a redrive": m.createRedrive, "step a redrive": m.stepRedrive, "step a redrive again": m.stepRedrive, "change a redrive": m.updateRedrive,
				"lapse": m.lapse,
			})
			m.compareHistories()
		})
	}}}
}

// model holds the records that a store should hold, changed by the pure functions of package job. All runs share a store, each
// with queues of its own. In virtual time the clock of the model is the store's. In real time nothing expires or becomes due
// while a run lasts, and times are not compared.
type model struct {
	s       *jobs
	t       *rapid.T
	queues  []string
	types   []string
	jobs    map[string]*job.Record
	history map[string][]job.Attempt
	living  map[string]bool // jobs that hold their unique key until they end
	holders map[[2]string]keyHolder
	paused  map[string]bool
	refs    []job.Ref // every lease ever given

	redrives []*modelRedrive
}

type keyHolder struct {
	id    string
	until time.Time
}

func newModel(s *jobs, t *rapid.T) *model {
	run := ids.Add(1)
	return &model{
		s: s, t: t, queues: []string{fmt.Sprint("run ", run, " a"), fmt.Sprint("run ", run, " b")}, types: []string{"t", "u", "v"}, jobs: map[string]*job.Record{},
		history: map[string][]job.Attempt{}, living: map[string]bool{}, holders: map[[2]string]keyHolder{}, paused: map[string]bool{},
	}
}

// span draws a duration: in virtual time a small multiple of a step, so that ends meet; in real time none or very long.
func (m *model) span(t *rapid.T, least int) time.Duration {
	n := rapid.IntRange(least, 4).Draw(t, "span")
	if m.s.virtual {
		return time.Duration(n) * m.s.short
	}
	return time.Duration(min(n, 1)) * long
}

func (m *model) enqueue(t *rapid.T) {
	list := make([]job.Insert, rapid.IntRange(1, 3).Draw(t, "jobs"))
	for i := range list {
		list[i] = job.Insert{
			ID: newID(), Type: rapid.SampledFrom(m.types).Draw(t, "type"), Queue: rapid.SampledFrom(m.queues).Draw(t, "queue"), Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
			Payload: rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "payload"), MaxAttempts: rapid.IntRange(0, 3).Draw(t, "max"),
			UniqueKey: rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"),
		}
		if later := m.span(t, 0); later > 0 && rapid.Bool().Draw(t, "later") {
			list[i].RunAt = time.Now().Add(later)
		}
		if list[i].UniqueKey != "" && rapid.Bool().Draw(t, "window") {
			list[i].UniqueFor = m.span(t, 0)
		}
	}
	if rapid.Bool().Draw(t, "reverse") {
		slices.Reverse(list)
	}
	receipts, err := m.s.Enqueue(m.s.ctx, list)
	if err != nil || len(receipts) != len(list) {
		t.Fatalf("Enqueue: %v, %v", receipts, err)
	}
	now := time.Now()
	for i, in := range list {
		want := m.insert(in, now)
		if receipts[i].ID != want.ID || receipts[i].Existed != want.Existed {
			t.Fatalf("J9: receipt %d is %+v, want %+v", i, receipts[i], want)
		}
	}
}

func (m *model) insert(in job.Insert, now time.Time) job.Receipt {
	key := [2]string{in.Queue, in.UniqueKey}
	if id, held := m.holder(key, now); in.UniqueKey != "" && held {
		return job.Receipt{ID: id, Existed: true}
	}
	m.jobs[in.ID], m.living[in.ID] = job.New(in, now), in.UniqueFor <= 0
	m.s.kept[in.ID] = true
	if h := (keyHolder{id: in.ID}); in.UniqueKey != "" {
		if in.UniqueFor > 0 {
			h.until = job.Stamp(now).Add(in.UniqueFor)
		}
		m.holders[key] = h
	}
	return job.Receipt{ID: in.ID}
}

// holder returns the job that holds a key now.
func (m *model) holder(key [2]string, now time.Time) (string, bool) {
	h, held := m.holders[key]
	if !held || !h.until.IsZero() && !now.Before(h.until) {
		return "", false
	}
	if r := m.jobs[h.id]; h.until.IsZero() && (r == nil || r.State.Finished()) {
		return "", false
	}
	return h.id, true
}

// maintain promotes and reclaims, in the store and in the model.
func (m *model) maintain() {
	m.s.maintain()
	now := time.Now()
	for id, r := range m.jobs {
		if r.State == job.Running && !job.Stamp(now).Before(r.LeaseUntil) {
			m.history[id] = append(m.history[id], r.Lose(now)...)
		}
		if r.Due(now) {
			r.State = job.Ready
		}
	}
}

func (m *model) claim(t *rapid.T) {
	if rapid.Bool().Draw(t, "maintain") {
		m.maintain()
	}
	c := job.Claim{Types: rapid.SliceOfNDistinct(rapid.SampledFrom(m.types), 0, len(m.types), rapid.ID).Draw(t, "types"), Worker: rapid.SampledFrom([]string{"v", "w"}).Draw(t, "worker"), Lease: m.span(t, 1)}
	for _, q := range m.queues {
		c.Queues = append(c.Queues, job.Slots{Queue: q, Free: rapid.IntRange(0, 3).Draw(t, "free")})
	}
	list, err := m.s.Claim(m.s.ctx, c)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	now := time.Now()
	for _, slots := range c.Queues {
		got := slices.DeleteFunc(slices.Clone(list), func(r *job.Record) bool { return r.Queue != slots.Queue })
		var want []*job.Record
		for _, r := range m.next(slots, c.Types, now) {
			r.Claim(c.Worker, c.Lease, now)
			m.refs = append(m.refs, r.Ref())
			want = append(want, r)
		}
		noDiff(t, "J10: claimed from "+slots.Queue, cmp.Diff(want, got, m.options(), ignoreUnread()))
	}
}

// next returns the jobs that a claim takes from a queue.
func (m *model) next(slots job.Slots, types []string, now time.Time) []*job.Record {
	if m.paused[slots.Queue] {
		return nil
	}
	var due []*job.Record
	for _, r := range m.jobs {
		if r.Queue == slots.Queue && r.Due(now) && (len(types) == 0 || slices.Contains(types, r.Type)) {
			due = append(due, r)
		}
	}
	sortToClaim(due)
	return due[:min(slots.Free, len(due))]
}

// leases draws leases of different jobs: live, stale and invented ones.
func (m *model) leases(t *rapid.T) []job.Ref {
	by := map[string]job.Ref{}
	for range rapid.IntRange(1, 3).Draw(t, "leases") {
		ref := job.Ref{ID: newID(), Fence: 1}
		if len(m.refs) > 0 {
			// The newest are drawn most, so that most are live.
			back := rapid.IntRange(0, min(len(m.refs)-1, 6)).Draw(t, "back")
			ref = m.refs[len(m.refs)-1-back]
		}
		if rapid.IntRange(0, 9).Draw(t, "bogus") == 0 {
			ref.Fence++
		}
		by[ref.ID] = ref
	}
	return slices.SortedFunc(maps.Values(by), func(a, b job.Ref) int { return strings.Compare(a.ID, b.ID) })
}

func (m *model) settle(t *rapid.T) {
	var list []job.Settlement
	for _, ref := range m.leases(t) {
		if rapid.Bool().Draw(t, "plain") { // the most frequent kind
			list = append(list, job.Settlement{Ref: ref, Kind: job.KindComplete, Reason: policy.ReasonSuccess})
			continue
		}
		list = append(list, job.Settlement{
			Ref: ref, Kind: rapid.SampledFrom(kinds()).Draw(t, "kind"), Delay: m.span(t, 0), Error: rapid.SampledFrom([]string{"", "e", "f\x00"}).Draw(t, "error"),
			Reason: rapid.SampledFrom([]policy.Reason{policy.ReasonError, policy.ReasonBudgetDenied}).Draw(t, "reason"), Output: []byte{1, 2},
			NotRun: rapid.Bool().Draw(t, "not run"), Started: m.span(t, 0),
		})
	}
	errs := m.s.Settle(m.s.ctx, list)
	now := time.Now()
	for i, x := range list {
		want := m.settleOne(x, now)
		if got := at(errs, i); !errors.Is(got, want) {
			t.Fatalf("J7: %s of %v: %v, want %v", x.Kind, x.Ref, got, want)
		}
	}
}

func (m *model) settleOne(x job.Settlement, now time.Time) error {
	r := m.jobs[x.ID]
	if r == nil {
		return job.ErrNotFound
	}
	err := r.Holds(x.Ref, now)
	switch {
	case err == nil:
		m.history[x.ID] = append(m.history[x.ID], r.Settle(x, now)...)
	case !r.Repeats(m.history[x.ID], x):
		return err
	}
	if r.CancelledBy(x) {
		return job.ErrCancelRequested
	}
	return nil
}

func (m *model) extend(t *rapid.T) {
	refs, d := m.leases(t), m.span(t, 1)
	errs := m.s.Extend(m.s.ctx, refs, d)
	now := time.Now()
	for i, ref := range refs {
		want := job.ErrNotFound
		if r := m.jobs[ref.ID]; r != nil {
			if want = r.Holds(ref, now); want == nil {
				r.LeaseUntil = job.Stamp(now.Add(d))
			}
			if want == nil && r.CancelRequested() {
				want = job.ErrCancelRequested
			}
		}
		if got := at(errs, i); !errors.Is(got, want) {
			t.Fatalf("J7: extending %v: %v, want %v", ref, got, want)
		}
	}
}

func at(errs []error, i int) error {
	if errs == nil {
		return nil
	}
	return errs[i]
}

func (m *model) change(t *rapid.T) {
	m.maintain()
	action := rapid.SampledFrom([]job.Action{job.ActionRetry, job.ActionCancel, job.ActionDelete}).Draw(t, "action")
	f := job.Filter{Queue: rapid.SampledFrom(m.queues).Draw(t, "queue")}
	if rapid.Bool().Draw(t, "by state") {
		f.States = []job.State{rapid.SampledFrom(job.States()).Draw(t, "state")}
	}
	limit := rapid.IntRange(1, 2).Draw(t, "limit")
	got := m.s.change(action, f, limit)
	now := time.Now()
	var want []string
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		if r := m.jobs[id]; len(want) < limit && f.Matches(r) && action.Applies(r.State) && m.apply(action, r, now) {
			want = append(want, id)
		}
	}
	noDiff(t, fmt.Sprintf("J13: %s of %+v changed", action, f), cmp.Diff(want, got, cmpopts.EquateEmpty()))
}

// apply changes a job, unless that would retry it while another job holds its key.
func (m *model) apply(action job.Action, r *job.Record, now time.Time) bool {
	key := [2]string{r.Queue, r.UniqueKey}
	id, held := m.holder(key, now)
	switch {
	case action == job.ActionDelete:
		delete(m.jobs, r.ID)
		delete(m.history, r.ID)
		return true
	case action == job.ActionRetry && r.UniqueKey != "" && m.living[r.ID]:
		if held && id != r.ID {
			return false
		}
		m.holders[key] = keyHolder{id: r.ID}
	}
	m.history[r.ID] = append(m.history[r.ID], r.Apply(action, now)...)
	return true
}

func (m *model) pause(t *rapid.T) {
	q := job.QueueState{Queue: rapid.SampledFrom(m.queues).Draw(t, "queue"), Paused: rapid.Bool().Draw(t, "paused")}
	if err := m.s.SetQueue(m.s.ctx, q); err != nil {
		t.Fatalf("SetQueue: %v", err)
	}
	m.paused[q.Queue] = q.Paused
}

func (m *model) lapse(t *rapid.T) {
	if m.s.virtual {
		time.Sleep(time.Duration(rapid.IntRange(1, 4).Draw(t, "half steps")) * m.s.short / 2)
	}
}

// options of comparisons: what a job keeps of its last lease is the store's own business.
func (m *model) options() cmp.Option {
	options := cmp.Options{cmpopts.EquateEmpty(), cmp.Transformer("idle", func(r *job.Record) job.Record {
		c := *r
		if c.State != job.Running {
			c.Worker, c.ClaimedAt = "", time.Time{}
		}
		return c
	})}
	if !m.s.virtual {
		options = append(options, cmp.Comparer(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() }))
	}
	return options
}

// compare checks every job of the run.
func (m *model) compare(t *rapid.T) {
	m.maintain()
	for _, q := range m.queues {
		var want []*job.Record
		for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
			if m.jobs[id].Queue == q {
				read := *m.jobs[id]
				read.Fence = 0 // J26
				want = append(want, &read)
			}
		}
		noDiff(t, "J1: jobs of "+q, cmp.Diff(want, m.s.list(job.Filter{Queue: q}), m.options()))
	}
}

func (m *model) compareHistories() {
	for id, r := range m.jobs {
		_, got := m.s.job(id)
		want := r.History(slices.Clone(m.history[id]))
		for _, rows := range [][]job.Attempt{want, got} {
			for i := range rows {
				if rows[i].Outcome == job.AttemptRefused {
					rows[i].Worker, rows[i].Finished = "", time.Time{} // of which of them is the store's own business
				}
			}
		}
		noDiff(m.t, "J4: history of "+id, cmp.Diff(want, got, m.options()))
	}
}
