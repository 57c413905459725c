package monitor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenetdev/tenet/job"
)

// depth collects the number of jobs in each queue. It asks the store at each scrape; every worker of a store returns the same
// numbers.
type depth struct {
	store  job.Admin
	jobs   *prometheus.Desc
	oldest *prometheus.Desc
}

// scrapeTime is how long a scrape waits for the store. Without an answer the gauges are left out.
const scrapeTime = 5 * time.Second

// NewDepth makes the gauges of jobs by queue and state, which ask the store at each scrape.
func NewDepth(store job.Admin) prometheus.Collector {
	return &depth{
		store: store,
		jobs: prometheus.NewDesc("tenet_jobs", "Jobs in the store, by queue and state: waiting, scheduled, ready, running or dead.",
			[]string{"queue", "state"}, nil),
		oldest: prometheus.NewDesc("tenet_jobs_oldest_ready_seconds", "How long the oldest ready job of a queue has been due.",
			[]string{"queue"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (d *depth) Describe(c chan<- *prometheus.Desc) { c <- d.jobs; c <- d.oldest }

// Collect implements prometheus.Collector.
func (d *depth) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	queues, err := d.store.Stats(ctx)
	if err != nil {
		return
	}
	for queue, s := range queues {
		for state, n := range map[job.State]int{job.Waiting: s.Waiting, job.Scheduled: s.Scheduled, job.Ready: s.Ready, job.Running: s.Running, job.Dead: s.Dead} {
			c <- prometheus.MustNewConstMetric(d.jobs, prometheus.GaugeValue, float64(n), queue, string(state))
		}
		c <- prometheus.MustNewConstMetric(d.oldest, prometheus.GaugeValue, s.OldestReady.Seconds(), queue)
	}
}
