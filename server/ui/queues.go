package ui

import (
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

type queues struct {
	States []job.State
	Queues []queueRow
	Next   string
}

// queuesPageSize is how many queues a page lists.
const queuesPageSize = 100

// queueRow is a queue with its counts and its switch.
type queueRow struct {
	Name, Escaped, Filter, Reason, Actor string
	Paused                               bool
	Until                                time.Time // a paused queue resumes by itself; zero for never
	Counts                               []stateCount
	Oldest                               float64 // seconds
	Workers                              []string
	Rate                                 string      // completed jobs per second, over the last minute
	Setting                              api.Setting // of the concurrency, by an operator; without a value if the workers decide
}

type stateCount struct {
	State  job.State
	Filter string
	Count  int
}

// readQueues returns all queues that hold jobs, are or were paused, or have workers, ordered by name.
func readQueues(r *request) ([]queueRow, error) {
	var stats api.Stats
	var switches api.Queues
	var workers api.Workers
	var settings api.Settings
	for path, out := range map[string]any{"/v1/stats": &stats, "/v1/queues": &switches, "/v1/workers": &workers, "/v1/settings": &settings} {
		if err := r.get(path, nil, out); err != nil {
			return nil, err
		}
	}
	rows := map[string]*queueRow{}
	row := func(name string) *queueRow {
		if rows[name] == nil {
			rows[name] = newQueueRow(name, stats.Queues[name])
		}
		return rows[name]
	}
	for name := range stats.Queues {
		row(name)
	}
	for _, s := range switches.Queues {
		q := row(s.Queue)
		q.Paused, q.Reason, q.Until, q.Actor = s.Holds(time.Now()), s.Reason, s.Until, s.Actor
	}
	for _, x := range settings.Settings {
		if x.Kind == job.SettingConcurrency && x.Value != nil {
			row(x.Name).Setting = x
		}
	}
	for _, w := range workers.Workers {
		for _, name := range w.Queues {
			q := row(name)
			q.Workers = append(q.Workers, w.Name)
		}
	}
	return lists.Map(slices.Sorted(maps.Keys(rows)), func(name string) queueRow { return *rows[name] }), nil
}

// count returns the number of jobs in a state.
func (q *queueRow) count(state job.State) int {
	i := slices.IndexFunc(q.Counts, func(c stateCount) bool { return c.State == state })
	return q.Counts[i].Count
}

// used reports whether the queue has held a job.
func (q *queueRow) used() bool {
	return slices.ContainsFunc(q.Counts, func(c stateCount) bool { return c.Count > 0 })
}

func newQueueRow(name string, stats api.QueueStats) *queueRow {
	row := &queueRow{Name: name, Escaped: url.PathEscape(name), Filter: term("queue", name), Oldest: stats.OldestReady}
	for _, s := range job.States() {
		row.Counts = append(row.Counts, stateCount{s, term("state", string(s)) + " " + row.Filter, *stats.Of(s)})
	}
	return row
}

func queuesPage() *page {
	return &page{path: "queues", nav: "Queues", title: "Queues", file: "queues", moving: true, load: func(r *request) (any, error) {
		list, err := readQueues(r)
		if err != nil {
			return nil, err
		}
		out := queues{States: job.States(), Queues: list}
		after := r.query.Get("after")
		if i := slices.IndexFunc(list, func(q queueRow) bool { return q.Name > after }); i > 0 {
			out.Queues = list[i:]
		}
		if len(out.Queues) > queuesPageSize {
			out.Queues = out.Queues[:queuesPageSize]
			out.Next = r.ui.href("queues", "after", out.Queues[queuesPageSize-1].Name)
		}
		return out, setRates(r, out.Queues)
	}}
}

// setRates fills in how fast jobs of the queues complete.
func setRates(r *request, list []queueRow) error {
	var h api.StatsHistory
	if err := r.get("/v1/stats/history", url.Values{"step": {"10s"}, "points": {"6"}, "queues": {"true"}}, &h); err != nil {
		return err
	}
	for i := range list {
		if rates := h.Queues[list[i].Name].Complete; len(rates) > 0 {
			list[i].Rate = shortNumber(mean(rates)) + "/s"
		}
	}
	return nil
}

// queueView is what the page of one queue shows.
type queueView struct {
	queueRow
	Course course
}

// Title names the page.
func (v queueView) Title() string { return "Queue " + v.Name }

func queuePage() *page {
	return &page{path: "queues/{queue}", nav: "Queues", file: "queue", moving: true, load: func(r *request) (any, error) {
		name := r.PathValue("queue")
		list, err := readQueues(r)
		if err != nil {
			return nil, err
		}
		out := queueView{queueRow: *newQueueRow(name, api.QueueStats{})} // a queue exists once it holds a job
		if i := slices.IndexFunc(list, func(q queueRow) bool { return q.Name == name }); i >= 0 {
			out.queueRow = list[i]
		}
		out.Course, err = readCourse(r, "queues/"+out.Escaped, name)
		return out, err
	}}
}
