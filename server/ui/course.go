package ui

import (
	"slices"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

// span is how far back charts reach.
type span struct {
	Name, Text string
	step       string // of the history
	length     time.Duration
	together   int // points of the history for each point of the charts

	Path    string // of the page with this span
	Current bool
}

// spans are what a person can choose; the first is the default.
func spans() []span {
	return []span{
		{Name: "3m", Text: "3 minutes", step: "1s", length: 3 * time.Minute, together: 1},
		{Name: "15m", Text: "15 minutes", step: "10s", length: 15 * time.Minute, together: 1},
		{Name: "2h", Text: "2 hours", step: "1m", length: 2 * time.Hour, together: 1},
		{Name: "1d", Text: "a day", step: "1m", length: 24 * time.Hour, together: 8},
	}
}

// course is what charts show of the jobs of a queue, or of all.
type course struct {
	Spans  []span
	Charts []chart
}

// readCourse reads the history of a queue, or of all, over the time that the page's address says. path is the page's.
func readCourse(r *request, path, queue string) (course, error) {
	out := course{Spans: spans()}
	chosen := &out.Spans[0]
	for i := range out.Spans {
		s := &out.Spans[i]
		s.Path = r.ui.href(path, "span", s.Name)
		if s.Name == r.query.Get("span") {
			chosen = s
		}
	}
	chosen.Current = true
	step, err := time.ParseDuration(chosen.step)
	if err != nil {
		return out, err
	}
	query := params.Of("step", chosen.step, "points", strconv.Itoa(int(chosen.length/step)), "queue", queue)
	var h api.StatsHistory
	if err := r.get("/v1/stats/history", query, &h); err != nil {
		return out, err
	}
	out.Charts = newCharts(&h, chosen)
	return out, nil
}

// newCharts draws a history.
func newCharts(h *api.StatsHistory, s *span) []chart {
	first := 0
	for i, at := range h.Times {
		switch {
		case h.Times[len(h.Times)-1].Sub(at) > s.length: // samples may be further apart than the step
			first = i + 1
		case i > 0 && at.Before(h.Times[i-1]): // the clock was set back
			first = i
		}
	}
	times := h.Times[first:]
	base := chart{X: []float64{}}
	if len(times) > 0 {
		base.Start = times[0].Unix()
	}
	for i := s.together - 1; i < len(times); i += s.together {
		base.X = append(base.X, float64(times[i].Unix()-base.Start))
	}
	t := &h.Total
	line := func(name string, color int, values []float64) series {
		return series{Name: name, Color: color, Values: merged(values[first:], s.together, mean)}
	}
	peak := func(name string, color int, values []float64) series {
		return series{Name: name, Color: color, Values: merged(values[first:], s.together, highest)}
	}
	level := func(name string, color int, counts []int) series {
		values := lists.Map(counts[first:], func(n int) float64 { return float64(n) })
		return series{Name: name, Color: color, Values: merged(values, s.together, last)}
	}
	gaps := func(list ...series) []series {
		for _, one := range list {
			for i, v := range one.Values {
				if v != nil && *v == 0 {
					one.Values[i] = nil // no job has ended
				}
			}
		}
		return list
	}
	charts := []chart{
		{ID: "throughput", Title: "Throughput", Unit: "rate", Series: []series{line("completed", 5, t.Complete), line("dead", 2, t.Die), line("retried", 3, t.Retry)}},
		{ID: "latency", Title: "From due to finished", Unit: "seconds", Series: gaps(peak("p50", 1, t.P50), peak("p95", 3, t.P95), peak("p99", 2, t.P99))},
		{ID: "amplification", Title: "Attempts per finished job", Unit: "times", Series: gaps(series{Name: "amplification", Color: 4, Values: merged(t.Amplification[first:], s.together, meanOfSome)})},
		{ID: "backlog", Title: "Backlog", Unit: "number", Series: []series{level("ready", 1, t.Ready), level("running", 4, t.Running), level("scheduled", 3, t.Scheduled), level("waiting", 6, t.Waiting)}},
		{ID: "oldest", Title: "Oldest ready job", Unit: "seconds", Series: []series{peak("due for", 2, t.Oldest)}},
	}
	for i := range charts {
		charts[i].X, charts[i].Start = base.X, base.Start
		charts[i].finish()
	}
	return charts
}

// merged puts so many values together. Values that do not fill the last group are left out, as their times are.
func merged(values []float64, together int, how func([]float64) float64) []*float64 {
	list := make([]*float64, 0, len(values)/together)
	for ; len(values) >= together; values = values[together:] {
		v := rounded(how(values[:together]))
		list = append(list, &v)
	}
	return list
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// meanOfSome leaves out values that are 0, when no job has ended.
func meanOfSome(values []float64) float64 {
	return mean(slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v == 0 }))
}

func highest(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}

func last(values []float64) float64 { return values[len(values)-1] }
