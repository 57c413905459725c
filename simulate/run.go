package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Options of [Scenario.Run]. The zero value runs the scenario as it is.
type Options struct {
	// Policies replace those of the scenario.
	Policies *policy.Set
	// Seed replaces the scenario's. 0 keeps it.
	Seed uint64
	// Bounds end a run that costs too much. Default none.
	Bounds Bounds
}

// Bounds of what a run may cost. Where they stop it depends on nothing but the scenario, the policies and the seed.
type Bounds struct {
	// Events is how many events a run may work off: a few for each attempt, about a million in a second. 0 is no bound.
	Events int
	// Memory is about how many bytes a run may hold. 0 is no bound.
	Memory int
}

func (b Bounds) reached(events, memory int) bool {
	return b.Events > 0 && events >= b.Events || b.Memory > 0 && memory > b.Memory
}

// ErrTooLarge is the error of a run that has reached one of its [Bounds].
var ErrTooLarge = errors.New("simulate: the simulation is too large")

// simulation is a run of a scenario.
type simulation struct {
	scenario *Scenario
	policies *policy.Set
	seed     uint64
	world    *world
	samples  int
	current  int           // sample, plus 1
	boundary time.Duration // when the next sample begins
	services map[string]*service
	groups   map[string]*group
}

// Run simulates the scenario. The same scenario, policies and seed give the same report, byte for byte, on every platform whose
// compiler does not fuse floating-point operations (amd64 and 386 among them). Run uses one goroutine at a time; it is safe for
// concurrent use. When ctx ends, it returns ctx's error, and at one of the bounds [ErrTooLarge].
func (s *Scenario) Run(ctx context.Context, o Options) (*Report, error) {
	m := &simulation{
		scenario: s, policies: cmp.Or(o.Policies, s.document.Set), seed: cmp.Or(o.Seed, uint64(s.Seed)), world: newWorld(),
		samples:  int((s.Duration + s.Interval - 1) / s.Interval),
		services: map[string]*service{}, groups: map[string]*group{},
	}
	if err := s.checkKeys(m.policies); err != nil {
		return nil, err
	}
	m.world.bounds, m.world.held = o.Bounds, s.size(m.samples)
	if o.Bounds.reached(0, m.world.held) {
		return nil, ErrTooLarge
	}
	m.build()
	m.world.interrupt = ctx.Done()
	m.world.run(s.Duration)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	if m.world.tooLarge {
		return nil, ErrTooLarge
	}
	return m.report(), nil
}

// size returns about how many bytes a run holds before it has begun.
func (s *Scenario) size(samples int) int {
	clients, series := 0, len(s.Services)+len(s.Clients)
	for _, service := range s.Services {
		clients += len(service.Calls)
		series += len(service.Calls)
	}
	for _, client := range s.Clients {
		clients += client.Count + client.Job.Workers
	}
	return clients*clientSize + series*samples*sampleSize
}

// build makes services and clients, in the order of their names.
func (m *simulation) build() {
	s := m.scenario
	for name, spec := range s.Services {
		m.services[name] = &service{
			simulation: m, spec: spec, random: newStream(m.seed, "service "+name), hits: newStream(m.seed, "faults of "+name),
			windows: make([]ServiceSample, m.samples),
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		if f := s.Faults[name]; f.Service != "" {
			m.services[f.Service].faults = append(m.services[f.Service].faults, f)
		}
	}
	for name, spec := range s.Services {
		executor := m.newExecutor(len(spec.Calls))
		for _, to := range slices.Sorted(maps.Keys(spec.Calls)) {
			g := m.newGroup("call "+name+" "+to, Client{Service: to, Policy: spec.Calls[to].Policy, Count: 1}, executor)
			m.services[name].calls = append(m.services[name].calls, g.members[0])
			m.groups[name+" → "+to] = g
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Clients)) {
		g := m.newGroup("client "+name, s.Clients[name], nil)
		for _, fault := range slices.Sorted(maps.Keys(s.Faults)) {
			if f := s.Faults[fault]; f.Client == name {
				g.faults = append(g.faults, f)
			}
		}
		m.groups[name] = g
		g.start()
	}
	m.world.at(0, m)
}

// sample returns the index of the current sample.
func (m *simulation) sample() int {
	for m.world.now >= m.boundary {
		m.boundary += m.scenario.Interval
		m.current++
	}
	return m.current - 1
}

// warm reports whether what began then counts in the totals. Its end counts where its beginning does, so that no more requests are
// served, and no more calls end, than there are.
func (m *simulation) warm(began time.Duration) bool { return began >= m.scenario.Warmup }

// act notes the state of services and jobs at the beginning of each sample.
func (m *simulation) act() {
	i := m.sample()
	for _, s := range m.services {
		if i < len(s.windows) {
			s.windows[i].Queue, s.windows[i].Busy = s.waiting(), s.busy
		}
	}
	for _, g := range m.groups {
		if i < len(g.windows) && g.jobs != nil {
			g.windows[i].Backlog = len(g.jobs.open)
		}
	}
	m.world.at(m.world.now+m.scenario.Interval, m)
}
