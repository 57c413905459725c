package api

import (
	"time"

	"github.com/tenetdev/tenet/job"
)

// StatsHistory is a course of counters, rates and latencies. All lists have the length of Times.
type StatsHistory struct {
	Step   float64           `json:"step_seconds" doc:"The usual time between two points, in seconds."`
	Times  []time.Time       `json:"times" nullable:"false" doc:"The ends of the points, oldest first."`
	Total  Series            `json:"total" doc:"The series of the queue in the request, or of all queues that the caller may see. A token for some queues sees those that are among the 50 busiest; points with none of them are left out."`
	Queues map[string]Series `json:"queues,omitempty" doc:"The series by queue, of the 50 busiest queues of each point. A queue that is not among them has zeros."`
}

// Series is the course of one queue, or of all.
type Series struct {
	Waiting   []int     `json:"waiting" nullable:"false"`
	Scheduled []int     `json:"scheduled" nullable:"false"`
	Ready     []int     `json:"ready" nullable:"false"`
	Running   []int     `json:"running" nullable:"false"`
	Completed []int     `json:"completed" nullable:"false" doc:"The number of completed jobs in the store."`
	Dead      []int     `json:"dead" nullable:"false"`
	Cancelled []int     `json:"cancelled" nullable:"false"`
	Oldest    []float64 `json:"oldest_ready_seconds" nullable:"false" doc:"How long the oldest ready job has been due."`

	Enqueue  []float64 `json:"enqueued_per_second" nullable:"false"`
	Complete []float64 `json:"completed_per_second" nullable:"false"`
	Die      []float64 `json:"dead_per_second" nullable:"false"`
	Cancel   []float64 `json:"cancelled_per_second" nullable:"false"`
	Attempt  []float64 `json:"attempts_per_second" nullable:"false"`
	Retry    []float64 `json:"retries_per_second" nullable:"false"`

	Amplification []float64 `json:"amplification" nullable:"false" doc:"Attempts for each job that completed or died; 0 where none did."`
	P50           []float64 `json:"latency_p50_seconds" nullable:"false" doc:"The median time from when the last attempt was due until the job completed or died, to a twentieth; 0 where no job did. Taken from at most 1,000 jobs at each look at the store. The total of a token that is bound to queues covers one queue at most."`
	P95           []float64 `json:"latency_p95_seconds" nullable:"false"`
	P99           []float64 `json:"latency_p99_seconds" nullable:"false"`
}

// NewSeries makes a series of n points of zeros.
func NewSeries(n int) Series {
	f, i := func() []float64 { return make([]float64, n) }, func() []int { return make([]int, n) }
	return Series{
		Waiting: i(), Scheduled: i(), Ready: i(), Running: i(), Completed: i(), Dead: i(), Cancelled: i(), Oldest: f(), Enqueue: f(), Complete: f(), Die: f(),
		Cancel: f(), Attempt: f(), Retry: f(), Amplification: f(), P50: f(), P95: f(), P99: f(),
	}
}

// SetStats fills in point i: the counters at its end, and what happened in the time before.
func (s *Series) SetStats(i int, q job.QueueStats, did job.Activity, since time.Duration) {
	s.Waiting[i] = q.Waiting
	s.Scheduled[i], s.Ready[i], s.Running[i], s.Completed[i], s.Dead[i], s.Cancelled[i] = q.Scheduled, q.Ready, q.Running, q.Completed, q.Dead, q.Cancelled
	s.Oldest[i] = q.OldestReady.Seconds()
	rate := func(n int64) float64 {
		if since <= 0 {
			return 0
		}
		return float64(n) / since.Seconds()
	}
	s.Enqueue[i], s.Complete[i], s.Die[i] = rate(did.Enqueued), rate(did.Completed), rate(did.Dead)
	s.Cancel[i], s.Attempt[i], s.Retry[i] = rate(did.Cancelled), rate(did.Attempts), rate(did.Retries)
	if ended := did.Completed + did.Dead; ended > 0 {
		s.Amplification[i] = float64(did.Attempts) / float64(ended)
	}
}

// SetLatency fills in the latencies of point i.
func (s *Series) SetLatency(i int, p50, p95, p99 time.Duration) {
	s.P50[i], s.P95[i], s.P99[i] = p50.Seconds(), p95.Seconds(), p99.Seconds()
}
