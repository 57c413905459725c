package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Bounds of a scenario, which keep a simulation within memory and minutes.
const (
	maxSamples = 10_000
	maxClients = 100_000 // of all groups
)

// Parse reads a scenario in YAML or JSON. It is as strict as [policyfile.Parse] and returns the same error with all faults and
// their places. name is the file's name in faults.
func Parse(name string, data []byte) (*Scenario, error) {
	s := &Scenario{}
	d, err := policyfile.Embed(name, data, s, policyfile.Options{})
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	s.document = d
	c := checker{scenario: s}
	c.check()
	if c.refused != nil {
		return nil, fmt.Errorf("simulate: %w", c.refused)
	}
	s.fill()
	return s, nil
}

// Schema returns the JSON Schema of scenarios.
func Schema() []byte {
	return policyfile.EmbeddingSchema(Scenario{}, "urn:tenet:scenario:1", "Tenet scenario")
}

// fill sets the defaults.
func (s *Scenario) fill() {
	s.Seed = cmp.Or(s.Seed, 1)
	s.Interval = cmp.Or(s.Interval, max(s.Duration/120, time.Millisecond))
	for name, c := range s.Clients {
		c.Count = max(c.Count, 1)
		if c.Job.Type != "" {
			c.Job.Queue = cmp.Or(c.Job.Queue, job.DefaultQueue)
			c.Job.Workers = max(c.Job.Workers, 1)
			c.Job.Concurrency = cmp.Or(c.Job.Concurrency, job.DefaultConcurrency)
			c.Job.Lease = cmp.Or(c.Job.Lease, job.DefaultLease)
		}
		s.Clients[name] = c
	}
	for name, f := range s.Faults {
		f.For = cmp.Or(f.For, s.Duration-f.At)
		f.Share = cmp.Or(f.Share, 1)
		s.Faults[name] = f
	}
}

// checker checks what the fields of a scenario say together.
type checker struct {
	scenario *Scenario
	refused  error
}

func (c *checker) refuse(path, problem, remedy string) {
	c.refused = c.scenario.document.Refuse(path, problem, remedy)
}

func (c *checker) check() {
	s := c.scenario
	if s.Duration == 0 {
		c.refuse("duration", "missing", "write how long the simulation lasts, for example 2m")
	}
	if s.Warmup > 0 && s.Warmup >= s.Duration {
		c.refuse("warmup", "not shorter than the duration", "shorten it, or lengthen the duration")
	}
	if s.Interval > 0 && s.Duration/s.Interval > maxSamples {
		c.refuse("interval", fmt.Sprintf("more than %d samples", maxSamples), "lengthen it")
	}
	if len(s.Services) == 0 {
		c.refuse("services", "there is none", "add a service")
	}
	if len(s.Clients) == 0 {
		c.refuse("clients", "there are none", "add a group of clients")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		for _, to := range slices.Sorted(maps.Keys(s.Services[name].Calls)) {
			c.service("services."+name+".calls."+to, to)
		}
	}
	if loop := s.cycle(); loop != nil {
		c.refuse("services."+loop[0]+".calls", "the calls form a cycle: "+strings.Join(loop, ", "), "remove one of them")
	}
	clients := 0
	for _, name := range slices.Sorted(maps.Keys(s.Clients)) {
		client, path := s.Clients[name], "clients."+name
		c.service(path+".service", client.Service)
		if client.Rate == 0 {
			c.refuse(path+".rate", "missing", "write how many calls per second each client makes")
		}
		switch {
		case client.Job.Type == "" && client.Job != ClientJob{}:
			c.refuse(path+".job.type", "missing", "write the type of the jobs")
		case client.Job.Type != "" && client.Policy != "":
			c.refuse(path+".policy", "does not apply to jobs", "remove it, and write the policy of the type under jobs, or of the queue under queues")
		}
		if clients += max(client.Count, 1); clients > maxClients {
			c.refuse(path+".count", fmt.Sprintf("more than %d clients in all", maxClients), "lower it, and raise their rate")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		c.fault("faults."+name, s.Faults[name])
	}
}

func (c *checker) fault(path string, f Fault) {
	switch {
	case (f.Service == "") == (f.Client == ""):
		c.refuse(path, "changes either a service or clients", "name one of them")
	case f.Service != "":
		c.service(path+".service", f.Service)
		switch requests := f.Errors > 0 || f.Latency > 0 || f.Down; {
		case f.Load > 0:
			c.refuse(path+".load", "belongs to clients", "remove it, or name clients")
		case !requests && f.Slowdown == 0:
			c.refuse(path, "changes nothing", "set errors, latency, slowdown or down")
		case !requests && f.Share > 0:
			c.refuse(path+".share", "a slowdown hits the whole service", "remove it")
		case f.Down && f.Shape != "" && f.Shape != Step:
			c.refuse(path+".shape", "the service is down at once", "remove it")
		}
	default:
		c.known(path+".client", f.Client, "group of clients", slices.Sorted(maps.Keys(c.scenario.Clients)))
		jobs := c.scenario.Clients[f.Client].Job.Type != ""
		switch {
		case f.Errors > 0 || f.Latency > 0 || f.Slowdown > 0:
			c.refuse(path, "errors, latency and slowdown belong to a service", "remove them, or name a service")
		case f.Down && !jobs:
			c.refuse(path+".down", "belongs to a service or to clients with a job", "remove it, or name a service")
		case f.Down && f.Shape != "" && f.Shape != Step:
			c.refuse(path+".shape", "workers are killed at once", "remove it")
		case f.Load == 0 && !f.Down:
			c.refuse(path, "changes nothing", "set load, or down for clients with a job")
		case f.Share > 0 && !f.Down:
			c.refuse(path+".share", "a load is that of all clients", "remove it")
		}
	}
	if f.At >= c.scenario.Duration {
		c.refuse(path+".at", "not before the end", "lower it, or lengthen the duration")
	}
}

func (c *checker) service(path, name string) {
	c.known(path, name, "service", slices.Sorted(maps.Keys(c.scenario.Services)))
}

func (c *checker) known(path, name, kind string, names []string) {
	if slices.Contains(names, name) {
		return
	}
	if name == "" {
		c.refuse(path, "missing", "write the name of a "+kind)
		return
	}
	remedy := "write one of " + strings.Join(names, ", ")
	if match := near.Name(name, names); match != "" {
		remedy = fmt.Sprintf("did you mean %q?", match)
	}
	c.refuse(path, fmt.Sprintf("unknown %s %q", kind, name), remedy)
}

// cycle returns the services on a cycle of calls, or nil.
func (s *Scenario) cycle() []string {
	var path []string
	done := map[string]bool{}
	var visit func(name string) []string
	visit = func(name string) []string {
		if i := slices.Index(path, name); i >= 0 {
			return path[i:]
		}
		if done[name] {
			return nil
		}
		path = append(path, name)
		for _, to := range slices.Sorted(maps.Keys(s.Services[name].Calls)) {
			if loop := visit(to); loop != nil {
				return loop
			}
		}
		path, done[name] = path[:len(path)-1], true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		if loop := visit(name); loop != nil {
			return loop
		}
	}
	return nil
}

// checkKeys reports policies that the scenario uses and set does not name.
func (s *Scenario) checkKeys(set *policy.Set) error {
	var refused error
	check := func(path, key string) {
		if key != "" && !set.Named(policy.ParseKey(key)) {
			refused = s.document.Refuse(path, fmt.Sprintf("no policy for %q", key), "add it under policies, or run the scenario with a document that has it")
		}
	}
	for name, service := range s.Services {
		for to, call := range service.Calls {
			check("services."+name+".calls."+to+".policy", call.Policy)
		}
	}
	for name, client := range s.Clients {
		check("clients."+name+".policy", client.Policy)
	}
	if refused != nil {
		return fmt.Errorf("simulate: %w", refused)
	}
	return nil
}
