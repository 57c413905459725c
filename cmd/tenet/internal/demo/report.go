package demo

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/jobs"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// Report is the result of the deliveries. Durations are in seconds.
type Report struct {
	Seed       uint64  `json:"seed"`
	Deliveries int     `json:"deliveries"`
	Elapsed    float64 `json:"elapsed"`
	Throughput float64 `json:"throughput"` // finished jobs per second

	// Arrived deliveries completed and are in the endpoint's ledger. Dead ones are in the dead-letter queue, with a reason;
	// the endpoint accepted DeadArrived of them, but its answer came too late. Lost are all others and must be empty.
	Arrived      int                   `json:"arrived"`
	Dead         int                   `json:"dead"`
	DeadByReason map[policy.Reason]int `json:"dead_by_reason"`
	DeadArrived  int                   `json:"dead_arrived"`
	Lost         []string              `json:"lost"`

	// From the store's history: attempts that ran, those of them that failed, and those that the killed worker lost.
	// Attempts refused by a budget or breaker are counted apart.
	Attempts    int `json:"attempts"`
	Failed      int `json:"failed"`
	LostLeases  int `json:"lost_leases"`
	Refused     int `json:"refused"`
	Interrupted int `json:"interrupted"`

	// From the endpoint: Repeated deliveries were accepted more than once; Strays are requests whose idempotency key
	// differed from that of the delivery's first request and must be 0.
	Requests      int           `json:"requests"`
	Repeated      int           `json:"repeated"`
	Strays        int           `json:"strays"`
	Faults        map[Fault]int `json:"faults"`
	Amplification float64       `json:"amplification"`
	Bound         *Bound        `json:"amplification_bound"`

	Stories []Story `json:"-"`
}

// Bound is how many requests the shared retry ratio allows per delivery: 1 + ratio + burst/deliveries.
type Bound struct {
	Ratio float64 `json:"ratio"`
	Burst float64 `json:"burst"`
	Max   float64 `json:"max"`
	Kept  bool    `json:"kept"`
}

// Story is a job with its history and the reason why it is shown.
type Story struct {
	Why     string
	Job     *job.Record
	History []job.Attempt
}

// processes is how many workers the demo starts.
const processes = 3

// Good reports whether every delivery is accounted for and the bound was kept.
func (r *Report) Good() bool {
	return len(r.Lost) == 0 && r.Strays == 0 && r.Arrived+r.Dead == r.Deliveries && (r.Bound == nil || r.Bound.Kept)
}

// ending is the result of a finished run, besides its store.
type ending struct {
	killed  string // part of the killed worker's name
	counts  Counts // of the endpoint
	elapsed time.Duration
}

func newReport(ctx context.Context, o Options, run ending) (Report, error) {
	counts := run.counts
	r := Report{
		Seed: o.Seed, Deliveries: len(o.Deliveries), Elapsed: run.elapsed.Seconds(), DeadByReason: map[policy.Reason]int{}, Lost: []string{},
		Requests: counts.Requests, Strays: counts.Strays, Faults: counts.Faults, Amplification: float64(counts.Requests) / float64(max(len(o.Deliveries), 1)),
	}
	stored, err := records(ctx, o.Store)
	if err != nil {
		return r, err
	}
	keys := make([]policy.Key, len(o.Deliveries))
	var picks picker
	for i, d := range o.Deliveries {
		keys[i] = policy.JobKey(d.Queue, "http")
		if counts.Accepted[d.ID] > 1 {
			r.Repeated++
		}
		record := stored[d.ID]
		r.addJob(d.ID, record, counts.Accepted[d.ID] > 0)
		if record == nil {
			continue
		}
		_, history, err := o.Store.Get(ctx, record.ID)
		if err != nil {
			return r, err
		}
		r.addHistory(history)
		picks.look(Story{Job: record, History: history}, run.killed)
	}
	r.Throughput = float64(r.Arrived+r.Dead) / max(r.Elapsed, 1e-9)
	r.Bound = boundOf(o.Set, keys, counts.Requests)
	r.Stories = picks.stories()
	return r, nil
}

// records returns all jobs by their unique keys, which are the deliveries' IDs.
func records(ctx context.Context, s open.JobStore) (map[string]*job.Record, error) {
	found := map[string]*job.Record{}
	for r, err := range jobs.All(ctx, s, job.Filter{}, "") {
		if err != nil {
			return nil, err
		}
		found[r.UniqueKey] = r
	}
	return found, nil
}

// boundOf returns the bound of jobs under the given keys, one for each job, or nil if they share no retry ratio. Each of the
// processes has its own budget.
func boundOf(set *policy.Set, keys []policy.Key, requests int) *Bound {
	name := ""
	for i, key := range keys {
		p := cli.PolicyOf(set, key)
		if i > 0 && p.Retry.Budget.Name != name || p.Hedge.Budget.Name != "" && p.Hedge.Budget.Name != p.Retry.Budget.Name {
			return nil
		}
		name = p.Retry.Budget.Name
	}
	b, ok := set.Budgets()[name]
	if !ok || b.Kind != policy.BudgetRetryRatio || len(keys) == 0 {
		return nil
	}
	all, burst := float64(len(keys)), b.Burst*processes
	bound := Bound{Ratio: b.Ratio, Burst: burst, Max: 1 + b.Ratio + burst/all}
	bound.Kept = float64(requests) <= all*(1+b.Ratio)+burst
	return &bound
}

func (r *Report) addJob(id string, record *job.Record, taken bool) {
	switch {
	case record != nil && record.State == job.Completed && taken:
		r.Arrived++
	case record != nil && record.State == job.Dead && record.Reason != "":
		r.Dead++
		r.DeadByReason[record.Reason]++
		if taken {
			r.DeadArrived++
		}
	default:
		r.Lost = append(r.Lost, id)
	}
}

func (r *Report) addHistory(history []job.Attempt) {
	for _, h := range history {
		switch h.Outcome {
		case job.AttemptCompleted:
			r.Attempts++
		case job.AttemptFailed:
			r.Attempts++
			r.Failed++
		case job.AttemptLost:
			r.Attempts++
			r.LostLeases++
		case job.AttemptRefused:
			r.Refused += h.Count
		case job.AttemptInterrupted:
			r.Interrupted++
		}
	}
}

// picker selects the jobs with the longest histories, one of each kind.
type picker struct{ crashed, hardest, dead Story }

func (p *picker) look(s Story, killed string) {
	lost := slices.ContainsFunc(s.History, func(h job.Attempt) bool {
		return h.Outcome == job.AttemptLost && killed != "" && strings.Contains(h.Worker, killed)
	})
	longer := func(than Story) bool { return len(s.History) > len(than.History) }
	switch {
	case lost && s.Job.State == job.Completed && longer(p.crashed):
		s.Why = "its worker was killed"
		p.crashed = s
	case !lost && s.Job.State == job.Completed && len(s.History) > 1 && longer(p.hardest):
		s.Why = "delivered after the most attempts"
		p.hardest = s
	case s.Job.State == job.Dead && longer(p.dead):
		s.Why = "in the dead-letter queue"
		p.dead = s
	}
}

func (p *picker) stories() []Story {
	return slices.DeleteFunc([]Story{p.crashed, p.hardest, p.dead}, func(s Story) bool { return s.Job == nil })
}
