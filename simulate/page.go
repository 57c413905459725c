package simulate

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed page.html page.svg
var pageFiles embed.FS

var pageTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(pageFiles, "page.html", "page.svg"))
})

// page is what the template shows.
type page struct {
	Heading, Conditions string
	Tables              []Table
	Plots               []plot
}

// Table is a part of a report as text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// IsText reports whether a column holds text rather than numbers.
func (t Table) IsText(column int) bool {
	return slices.ContainsFunc(t.Rows, func(row []string) bool {
		return row[column] != "" && (row[column][0] < '0' || row[column][0] > '9')
	})
}

// WriteHTML writes the report as one HTML page with plots, for light and dark screens. The page loads nothing and runs no script.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{
		Heading:    cmp.Or(r.Title, "Simulation"),
		Conditions: fmt.Sprintf("%s of virtual time, seed %d; totals leave out the first %s.", span(r.Duration), r.Seed, span(r.Warmup)),
		Tables:     r.Tables(),
		Plots:      r.plots(),
	}
	if r.Warmup == 0 {
		p.Conditions = fmt.Sprintf("%s of virtual time, seed %d.", span(r.Duration), r.Seed)
	}
	if len(r.Faults) > 0 {
		faults := Table{Title: "Faults", Head: []string{"fault", "of", "from", "to", "shape", "effect"}}
		for _, f := range r.Faults {
			faults.Rows = append(faults.Rows, []string{f.Name, f.Of, span(f.From), span(f.To), string(f.Shape), f.Effect})
		}
		p.Tables = append([]Table{faults}, p.Tables...)
	}
	if err := pageTemplates().ExecuteTemplate(w, "page.html", p); err != nil {
		return fmt.Errorf("simulate: write the page: %w", err)
	}
	return nil
}

// placed is a plot at its place in a drawing.
type placed struct {
	plot
	X, Y float64
}

// Measures of a drawing: two columns of plots, each with lines for its title and the names of its curves above it.
const (
	plotColumns = 2
	plotHead    = 44.0
	plotGap     = 20.0
)

// WriteSVG draws the plots of the report, without its tables, as one SVG image for light and dark screens.
func (r *Report) WriteSVG(w io.Writer) error {
	drawing := struct {
		Heading       string
		Width, Height float64
		Plots         []placed
	}{Heading: cmp.Or(r.Title, "Simulation"), Width: plotColumns*(plotWidth+plotGap) - plotGap}
	for i, p := range r.plots() {
		at := placed{plot: p, X: float64(i%plotColumns) * (plotWidth + plotGap), Y: float64(i/plotColumns) * (plotHead + plotHeight + plotGap)}
		drawing.Plots, drawing.Height = append(drawing.Plots, at), at.Y+plotHead+plotHeight
	}
	if err := pageTemplates().ExecuteTemplate(w, "page.svg", drawing); err != nil {
		return fmt.Errorf("simulate: draw the plots: %w", err)
	}
	return nil
}

// describe writes a fault in words.
func describe(name string, f Fault) FaultSpan {
	target := "service " + f.Service
	if f.Client != "" {
		target = "clients " + f.Client
	}
	var effects []string
	add := func(given bool, format string, args ...any) {
		if given {
			effects = append(effects, fmt.Sprintf(format, args...))
		}
	}
	add(f.Down && f.Service != "", "refuses requests")
	add(f.Down && f.Client != "", "workers are killed")
	add(f.Errors > 0, "%g %% of requests fail", 100*f.Errors)
	add(f.Latency > 0, "latency × %g", f.Latency)
	add(f.Slowdown > 0, "capacity ÷ %g", f.Slowdown)
	add(f.Load > 0, "load × %g", f.Load)
	add(f.Share < 1 && f.Service != "", "for %g %% of requests", 100*f.Share)
	add(f.Share < 1 && f.Client != "", "%g %% of the workers", 100*f.Share)
	return FaultSpan{
		Name: name, Of: target, From: f.At.Seconds(), To: (f.At + f.For).Seconds(), Shape: cmp.Or(f.Shape, Step), Effect: strings.Join(effects, ", "),
	}
}

// Tables returns the totals of clients, jobs and services as text.
func (r *Report) Tables() []Table {
	clients := Table{Title: "Clients", Head: []string{
		"clients", "service", "calls", "success", "attempts/call", "p50", "p99", "failures",
	}}
	jobs := Table{Title: "Jobs", Head: []string{
		"clients", "service", "jobs", "completed", "attempts/job", "p50", "p99", "peak backlog", "lost leases", "dead",
	}}
	for _, c := range r.Clients {
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(c.Reasons)) {
			reasons = append(reasons, fmt.Sprintf("%s %d", reason, c.Reasons[reason]))
		}
		row := []string{
			c.Name, c.Service, strconv.FormatInt(c.Calls, 10), fmt.Sprintf("%.2f %%", 100*c.Success), fmt.Sprintf("%.3f", c.AttemptsPerCall),
			span(c.Latency.P50), span(c.Latency.P99),
		}
		if c.JobType == "" {
			clients.Rows = append(clients.Rows, append(row, strings.Join(reasons, ", ")))
		} else {
			row = append(row, strconv.Itoa(c.PeakBacklog), strconv.FormatInt(c.LostLeases, 10), strings.Join(reasons, ", "))
			jobs.Rows = append(jobs.Rows, row)
		}
	}
	services := Table{Title: "Services", Head: []string{
		"service", "requests", "served", "failed", "wasted", "refused", "dropped", "peak queue",
	}}
	for _, s := range r.Services {
		row := []string{s.Name}
		for _, n := range []int64{s.Requests, s.Served, s.Failed, s.Wasted, s.Refused, s.Dropped, int64(s.PeakQueue)} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		services.Rows = append(services.Rows, row)
	}
	return slices.DeleteFunc([]Table{clients, jobs, services}, func(t Table) bool { return len(t.Rows) == 0 })
}

// span writes seconds as a duration of three digits.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	unit := time.Nanosecond
	for unit*1000 <= d && unit < 10*time.Millisecond {
		unit *= 10
	}
	return d.Round(unit).String()
}
