package simulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Measures of a plot in SVG units.
const (
	plotWidth, plotHeight = 640.0, 240.0
	left, right           = 48.0, 8.0
	top, bottom           = 10.0, 24.0
)

// plot is a diagram over time.
type plot struct {
	Title         string
	Width, Height float64
	Curves        []curve
	Shades        []shade
	Ticks         []tick
}

type curve struct {
	Name   string
	Path   string
	values []float64 // NaN where there is none
}

type shade struct{ X, Y, W, H string }

type tick struct{ X1, Y1, X2, Y2, X, Y, Anchor, Label string }

// plots draws every series of the report.
func (r *Report) plots() []plot {
	var list []plot
	for _, c := range r.Clients {
		n := len(c.Series)
		rate := func(of func(ClientSample) int64) []float64 {
			return values(n, func(i int) float64 { return float64(of(c.Series[i])) / r.lengthOf(i) })
		}
		words := wordsOf(&c)
		list = append(list, r.plot(c.Name+": "+words.calls+" per second",
			curve{Name: words.calls, values: rate(func(s ClientSample) int64 { return s.Calls })},
			curve{Name: "attempts", values: rate(func(s ClientSample) int64 { return s.Attempts })},
			curve{Name: words.succeeded, values: rate(func(s ClientSample) int64 { return s.Succeeded })},
			curve{Name: words.failed, values: rate(func(s ClientSample) int64 { return s.Failed })}),
			r.plot(c.Name+": "+words.latency+" in seconds",
				curve{Name: "p50", values: values(n, func(i int) float64 { return present(c.Series[i].Latency.P50) })},
				curve{Name: "p99", values: values(n, func(i int) float64 { return present(c.Series[i].Latency.P99) })}))
		if c.JobType != "" {
			list = append(list, r.plot(c.Name+": unfinished jobs",
				curve{Name: "backlog", values: values(n, func(i int) float64 { return float64(c.Series[i].Backlog) })}))
		}
	}
	for _, s := range r.Services {
		n := len(s.Series)
		rate := func(of func(ServiceSample) int64) []float64 {
			return values(n, func(i int) float64 { return float64(of(s.Series[i])) / r.lengthOf(i) })
		}
		list = append(list, r.plot(s.Name+": requests per second",
			curve{Name: "arrived", values: rate(func(s ServiceSample) int64 { return s.Requests })},
			curve{Name: "served in vain", values: rate(func(s ServiceSample) int64 { return s.Wasted })},
			curve{Name: "useful", values: rate(func(s ServiceSample) int64 { return s.Served - s.Failed - s.Wasted })},
			curve{Name: "failed, refused or dropped", values: rate(func(s ServiceSample) int64 { return s.Failed + s.Refused + s.Dropped })}),
			r.plot(s.Name+": requests inside",
				curve{Name: "being served", values: values(n, func(i int) float64 { return float64(s.Series[i].Busy) })},
				curve{Name: "waiting", values: values(n, func(i int) float64 { return float64(s.Series[i].Queue) })}))
	}
	return list
}

// words name what happens to calls or jobs.
type words struct{ calls, succeeded, failed, latency string }

func wordsOf(c *ClientResult) words {
	if c.JobType != "" {
		return words{"jobs", "completed", "dead", "time from enqueueing to completion"}
	}
	return words{"calls", "succeeded", "failed", "latency of successful calls"}
}

// lengthOf returns the length of a sample in seconds; the last one may be shorter.
func (r *Report) lengthOf(i int) float64 {
	return max(min(r.Interval, r.Duration-float64(i)*r.Interval), 1e-9)
}

// present turns a percentile that does not exist into a gap.
func present(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

func values(n int, of func(i int) float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = of(i)
	}
	return list
}

// plot draws curves over the time of the report.
func (r *Report) plot(title string, curves ...curve) plot {
	highest := 0.0
	for _, c := range curves {
		for _, v := range c.values {
			if v > highest { // false for NaN
				highest = v
			}
		}
	}
	step := stepOf(highest)
	ceiling := max(math.Ceil(highest/step)*step, step)
	x := func(seconds float64) float64 { return left + seconds/r.Duration*(plotWidth-left-right) }
	y := func(v float64) float64 { return top + (1-v/ceiling)*(plotHeight-top-bottom) }
	p := plot{Title: title, Width: plotWidth, Height: plotHeight, Curves: curves}
	for i := range p.Curves {
		c := &p.Curves[i]
		var path strings.Builder
		step := "M"
		for k, v := range c.values {
			if math.IsNaN(v) {
				step = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%s %s", step, number(x(min((float64(k)+0.5)*r.Interval, r.Duration))), number(y(v)))
			step = "L"
		}
		c.Path = path.String()
	}
	for _, f := range r.Faults {
		to := min(f.To, r.Duration)
		if f.Shape == Ramp {
			to = r.Duration
		}
		p.Shades = append(p.Shades, shade{number(x(f.From)), number(top), number(x(to) - x(f.From)), number(plotHeight - top - bottom)})
	}
	for v := 0.0; v <= ceiling*1.0001; v += step {
		p.Ticks = append(p.Ticks, tick{
			number(left), number(y(v)), number(plotWidth - right), number(y(v)), number(left - 6), number(y(v) + 4), "end", short(v),
		})
	}
	seconds := timeStep(r.Duration)
	for v := 0.0; v <= r.Duration*1.0001; v += seconds {
		anchor := "middle"
		if v+seconds > r.Duration*1.0001 {
			anchor = "end"
		}
		p.Ticks = append(p.Ticks, tick{
			number(x(v)), number(plotHeight - bottom), number(x(v)), number(plotHeight - bottom + 4), number(x(v)), number(plotHeight - 6),
			anchor, trimmed(time.Duration(v * float64(time.Second))),
		})
	}
	return p
}

// stepOf returns a step of 1, 2 or 5 times a power of ten that divides a range into at most six parts.
func stepOf(span float64) float64 {
	if span <= 0 {
		return 1
	}
	power := 1.0
	for power*10 <= span/6 {
		power *= 10
	}
	for power > span/6 {
		power /= 10
	}
	for _, factor := range []float64{1, 2, 5} {
		if span/(power*factor) <= 6 {
			return power * factor
		}
	}
	return power * 10
}

// timeStep returns a step in seconds for an axis of time.
func timeStep(duration float64) float64 {
	for _, step := range []float64{15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400} {
		if duration > 60 && duration/step <= 8 {
			return step
		}
	}
	return stepOf(duration)
}

// number writes a coordinate.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// short writes the label of an axis.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// trimmed writes a duration without zero units at its end.
func trimmed(d time.Duration) string {
	text := d.String()
	if d >= time.Minute {
		text = strings.TrimSuffix(text, "0s")
		if text[len(text)-1] != 'm' {
			text = d.String()
		} else if d >= time.Hour {
			if short, whole := strings.CutSuffix(text, "h0m"); whole {
				text = short + "h"
			}
		}
	}
	return text
}
