package ui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/simulate"
)

// policySimulation is what a revision does to a service in trouble.
type policySimulation struct {
	documentHead
	Shown    int64 // the revision
	Rules    []string
	More     bool // than the rules that are listed
	Form     simulationForm
	Troubles []trouble
	Scenario string
	Problem  string
	Words    []string // what happens to the service
	Runs     []simulationRun
	Charts   []chart // of the first run
	Command  string
}

// simulationRun is a simulation under one revision.
type simulationRun struct {
	Revision int64
	Tables   []simulate.Table
}

// simulationForm is a scenario as a person fills it in.
type simulationForm struct {
	Rule, Clients, Rate, Latency, Slots, Trouble, Lasts, Seed string
}

// trouble is something that happens to the service.
type trouble struct {
	Name, Text string
	fault      string // its fields in a scenario; empty for none
}

func troubles() []trouble {
	return []trouble{
		{"errors", "half of the requests fail", "errors: 0.5"},
		{"down", "it refuses all requests", "down: true"},
		{"slow", "it is five times slower", "latency: 5"},
		{"small", "it loses three quarters of its capacity", "slowdown: 4"},
		{"none", "nothing happens to it", ""},
	}
}

// maxSimulatedRules bounds the rules to choose from.
const maxSimulatedRules = 500

func policySimulationPage() *page {
	return documentPage("Simulation", page{path: "policies/{name}/simulation", file: "policy-simulation", still: true}, func(r *request, h documentHead) (any, error) {
		shown, err := r.shownRevision(h)
		if err != nil {
			return nil, err
		}
		d, err := policyfile.Parse(h.Name, []byte(shown.Body), policyfile.Options{})
		if err != nil {
			return nil, err
		}
		out := policySimulation{documentHead: h, Shown: shown.Revision, Troubles: troubles(), Form: simulationForm{
			Rule: r.query.Get("rule"), Clients: r.field("clients", "10"), Rate: r.field("rate", "50"), Latency: r.field("latency", "50ms"),
			Slots: r.field("slots", "20"), Trouble: r.field("trouble", "errors"), Lasts: r.field("lasts", "30s"), Seed: r.field("seed", "1"),
		}}
		for _, key := range d.Set.Keys() {
			if s := key.Surface(); s != policy.SurfaceCall && (s != policy.SurfaceJob || key.Name == "") {
				continue
			}
			if out.More = len(out.Rules) == maxSimulatedRules; out.More {
				break
			}
			out.Rules = append(out.Rules, key.String())
		}
		if len(out.Rules) == 0 {
			return out, nil
		}
		out.Form.Rule = cmp.Or(out.Form.Rule, out.Rules[0])
		return out, out.run(r, d.Set.KeyNamed(out.Form.Rule))
	})
}

// field reads a field of a form that is part of the page's address.
func (r *request) field(name, absent string) string {
	return cmp.Or(strings.TrimSpace(r.query.Get(name)), absent)
}

// run simulates the revision, and beside it the one in force.
func (p *policySimulation) run(r *request, key policy.Key) error {
	if p.Problem = p.Form.fault(); p.Problem != "" {
		return nil
	}
	p.Scenario = p.Form.scenario(fmt.Sprintf("%s of %s", key, p.Name), key)
	file := p.Name + ".yaml"
	p.Command = commandLine([]string{"policy", "get", p.Name, "--revision", decimal(p.Shown)}) + " > " + file + " && " +
		commandLine([]string{"simulate", "scenario.yaml", "--policy", file, "--html", "report.html"})
	revisions := []int64{p.Shown}
	if p.Shown != p.Current {
		revisions = append(revisions, p.Current)
	}
	for i, n := range revisions {
		var report simulate.Report
		err := r.ask(documentPath(p.Name, "/revisions/"+decimal(n)+"/simulation"), api.Simulation{Scenario: p.Scenario}, &report)
		if text := faultOf(err); text != "" && i > 0 {
			continue // it does not have the rule
		} else if text != "" {
			p.Problem = text
			return nil
		}
		if err != nil {
			return err
		}
		p.Runs = append(p.Runs, simulationRun{n, report.Tables()})
		if i == 0 {
			p.Charts = simulationCharts(&report)
			for _, f := range report.Faults {
				p.Words = append(p.Words, fmt.Sprintf("From %s to %s: %s.", seconds(f.From), seconds(f.To), f.Effect))
			}
		}
	}
	return nil
}

// fault says what is wrong with the fields that hold numbers. The simulator checks the rest.
func (f *simulationForm) fault() string {
	for _, n := range []struct{ label, text string }{
		{"Clients or workers", f.Clients}, {"Calls or jobs per second", f.Rate}, {"Requests that the service serves at once", f.Slots}, {"Seed", f.Seed},
	} {
		if v, err := strconv.ParseFloat(n.text, 64); err != nil || !(v > 0 && v <= 1e9) {
			return n.label + ": write a number above 0."
		}
	}
	return ""
}

// scenario writes the scenario of the form.
func (f *simulationForm) scenario(title string, key policy.Key) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("version: 1")
	line("title: %q", title)
	line("seed: %s", f.Seed)
	line("duration: 3m")
	line("warmup: 10s")
	line("services:")
	line("  service: {concurrency: %s, latency: {distribution: exponential, mean: %q}}", f.Slots, f.Latency)
	line("clients:")
	if queue, isJob := strings.CutPrefix(key.Namespace, "job/"); isJob {
		line("  jobs: {service: service, rate: %s, job: {type: %q, queue: %q, workers: %s}}", f.Rate, key.Name, cmp.Or(queue, "default"), f.Clients)
	} else {
		rate, _ := strconv.ParseFloat(f.Rate, 64)
		count, _ := strconv.ParseFloat(f.Clients, 64)
		line("  clients: {service: service, policy: %q, count: %s, rate: %g}", key, f.Clients, rate/count)
	}
	for _, t := range troubles() {
		if t.Name == f.Trouble && t.fault != "" {
			line("faults:")
			line("  trouble: {service: service, at: 60s, for: %q, %s}", f.Lasts, t.fault)
		}
	}
	return b.String()
}

// simulationCharts draws the samples of a report.
func simulationCharts(r *simulate.Report) (charts []chart) {
	x := []float64{}
	add := func(c chart) {
		c.X, c.Elapsed = x, true
		c.finish()
		charts = append(charts, c)
	}
	for _, c := range r.Clients {
		n := len(c.Series)
		for i := range n {
			x = append(x, float64(i)*r.Interval)
		}
		rate := func(name string, color int, of func(*simulate.ClientSample) int64) series {
			return seriesOf(name, color, n, func(i int) float64 { return float64(of(&c.Series[i])) / r.Interval })
		}
		calls, succeeded, failed, latency := "calls", "succeeded", "failed", "Latency of successful calls"
		if c.JobType != "" {
			calls, succeeded, failed, latency = "jobs", "completed", "dead", "From enqueueing to completion"
		}
		add(chart{ID: "calls", Title: "Per second", Unit: "rate", Series: []series{
			rate(calls, 1, func(s *simulate.ClientSample) int64 { return s.Calls }),
			rate("attempts", 3, func(s *simulate.ClientSample) int64 { return s.Attempts }),
			rate(succeeded, 5, func(s *simulate.ClientSample) int64 { return s.Succeeded }),
			rate(failed, 2, func(s *simulate.ClientSample) int64 { return s.Failed }),
		}})
		p50 := seriesOf("p50", 1, n, func(i int) float64 { return c.Series[i].Latency.P50 })
		p99 := seriesOf("p99", 2, n, func(i int) float64 { return c.Series[i].Latency.P99 })
		for i := range n {
			if c.Series[i].Latency.P99 == 0 {
				p50.Values[i], p99.Values[i] = nil, nil // nothing has succeeded
			}
		}
		add(chart{ID: "latency", Title: latency, Unit: "seconds", Series: []series{p50, p99}})
		if c.JobType != "" {
			add(chart{ID: "backlog", Title: "Unfinished jobs", Unit: "number", Series: []series{
				seriesOf("backlog", 4, n, func(i int) float64 { return float64(c.Series[i].Backlog) }),
			}})
		}
	}
	for _, s := range r.Services {
		add(chart{ID: "service", Title: "Requests inside the service", Unit: "number", Series: []series{
			seriesOf("being served", 5, len(s.Series), func(i int) float64 { return float64(s.Series[i].Busy) }),
			seriesOf("waiting", 2, len(s.Series), func(i int) float64 { return float64(s.Series[i].Queue) }),
		}})
	}
	return charts
}

func seriesOf(name string, color, n int, of func(i int) float64) series {
	s := series{Name: name, Color: color, Values: make([]*float64, n)}
	for i := range n {
		v := rounded(of(i))
		s.Values[i] = &v
	}
	return s
}
