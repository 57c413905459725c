package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/history"
)

const (
	sampleIdle    = 10 * time.Second // between samples while nobody asks
	sampleAskedIn = 2 * time.Minute  // how long after a question samples are taken every second
	mostFinished  = 1000             // finished jobs that a sample reads
)

type historyQuery struct {
	Step   string `query:"step" enum:"1s,10s,1m" default:"10s" doc:"The resolution: 1s covers the last 15 minutes, 10s 2 hours, 1m a day."`
	Points int    `query:"points" minimum:"1" maximum:"1440" default:"180" doc:"How many of the newest to return."`
	Queue  string `query:"queue" maxLength:"255" doc:"Only this queue. Points at which it is not among the 50 busiest queues are left out."`
	Queues bool   `query:"queues" doc:"Also list the queues one by one."`
}

func (s *Server) historyRoutes() {
	o := group{tag: "Jobs", scope: policystore.ScopeRead}.route(http.MethodGet, "/v1/stats/history", "stats-history", "Show the course of counters, rates and latencies")
	o.Description = "Each server keeps its own history in memory, since its start. It looks at the store every second for two minutes after a question, and otherwise every 10 seconds; then points of 1s are further apart."
	register(s, o, s.statsHistory)
}

// sampler feeds the history.
type sampler struct {
	history history.History
	asked   wait.Signal // somebody has asked
	looked  time.Time   // when the newest sample was taken, by the wall clock
}

// run takes samples until ctx ends.
func (p *sampler) run(ctx context.Context, s *Server) {
	finisher, _ := s.options.Jobs.(job.Finisher)
	newest, until := time.Now(), time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.asked:
			before := until
			if until = time.Now().Add(sampleAskedIn); time.Now().Before(before) {
				continue // it looks often enough
			}
		case <-ctx.Done():
			return
		}
		now := time.Now()
		p.sample(ctx, s, finisher, &newest)
		pause := sampleIdle
		if now.Before(until) {
			pause = eventEvery
		}
		timer.Reset(pause)
	}
}

func (p *sampler) sample(ctx context.Context, s *Server, finisher job.Finisher, newest *time.Time) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	stats, at, err := s.counters.get(ctx)
	if err != nil {
		return // a gap
	}
	wall := at.Round(0)
	if wall.Before(p.looked) { // the clock was set back, and with it that of a store on this machine
		*newest = wall
	}
	p.looked = wall
	var finished []job.Finish
	if finisher != nil {
		if finished, err = finisher.Finished(ctx, *newest, mostFinished); err == nil && len(finished) > 0 {
			*newest = finished[0].Finished
		}
	}
	p.history.Add(at, stats, finished)
}

func (s *Server) statsHistory(ctx context.Context, in *historyQuery) (*answer[api.StatsHistory], error) {
	s.sampler.asked.Send()
	who := callerOf(ctx)
	if in.Queue != "" {
		if err := who.mayQueue(in.Queue); err != nil {
			return nil, err
		}
	}
	step, err := time.ParseDuration(in.Step)
	if err != nil {
		return nil, err
	}
	points := s.sampler.history.Points(step, in.Points)
	asked := func(queue string) bool { return (in.Queue == "" || queue == in.Queue) && within(queue, who.Queues) }
	points = slices.DeleteFunc(points, func(p history.Point) bool { return !p.Knows(asked) })
	out := api.StatsHistory{Step: step.Seconds(), Times: make([]time.Time, len(points)), Total: api.NewSeries(len(points))}
	if in.Queues {
		out.Queues = map[string]api.Series{}
	}
	for i := range points {
		p := &points[i]
		out.Times[i] = p.At.UTC()
		if in.Queue == "" && len(who.Queues) == 0 {
			setPoint(&out.Total, i, &p.Total, p.Since)
		} else {
			total := sumOf(p.Queues, asked)
			setPoint(&out.Total, i, &total, p.Since)
		}
		for j := range p.Queues {
			q := &p.Queues[j]
			if !in.Queues || !asked(q.Queue) {
				continue
			}
			series, ok := out.Queues[q.Queue]
			if !ok {
				series = api.NewSeries(len(points))
				out.Queues[q.Queue] = series
			}
			setPoint(&series, i, q, p.Since)
		}
	}
	return answers(out, nil)
}

func setPoint(s *api.Series, i int, p *history.Sample, since time.Duration) {
	s.SetStats(i, p.Stats, p.Did, since)
	s.SetLatency(i, p.P50, p.P95, p.P99)
}

// sumOf adds up queues. Latencies cannot be added: there are some only if it is one queue.
func sumOf(queues []history.Sample, wanted func(queue string) bool) (sum history.Sample) {
	n := 0
	for i := range queues {
		q := &queues[i]
		if !wanted(q.Queue) {
			continue
		}
		if n++; n == 1 {
			sum = *q
			continue
		}
		sum.Stats.Add(q.Stats)
		sum.Did.Add(q.Did)
		sum.P50, sum.P95, sum.P99 = 0, 0, 0
	}
	return sum
}
