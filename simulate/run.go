package simulate

import (
	"cmp"
	"context"
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
}

// simulation is a run of a scenario.
type simulation struct {
	scenario *Scenario
	policies *policy.Set
	seed     uint64
	world    *world
	samples  int
	services map[string]*service
	groups   map[string]*group
}

// Run simulates the scenario. The same scenario, policies and seed give the same report, byte for byte, on every platform whose
// compiler does not fuse floating-point operations (amd64 and 386 among them). Run uses one goroutine at a time; it is safe for
// concurrent use. When ctx ends, it returns ctx's error.
func (s *Scenario) Run(ctx context.Context, o Options) (*Report, error) {
	m := &simulation{
		scenario: s, policies: o.Policies, seed: cmp.Or(o.Seed, uint64(s.Seed)), world: newWorld(),
		samples:  int((s.Duration + s.Interval - 1) / s.Interval),
		services: map[string]*service{}, groups: map[string]*group{},
	}
	if m.policies == nil {
		m.policies = s.document.Set
	}
	if err := s.checkKeys(m.policies); err != nil {
		return nil, err
	}
	if err := m.build(); err != nil {
		return nil, err
	}
	m.world.interrupt = ctx.Done()
	m.world.run(s.Duration)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return m.report(), nil
}

// build makes services and clients, in the order of their names.
func (m *simulation) build() error {
	s := m.scenario
	for name, spec := range s.Services {
		m.services[name] = &service{
			simulation: m, name: name, spec: spec, random: newStream(m.seed, "service "+name), windows: make([]ServiceSample, m.samples),
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		if f := s.Faults[name]; f.Service != "" {
			m.services[f.Service].faults = append(m.services[f.Service].faults, f)
		}
	}
	for name, spec := range s.Services {
		for _, to := range slices.Sorted(maps.Keys(spec.Calls)) {
			g, err := m.newGroup("call "+name+" "+to, Client{Service: to, Policy: spec.Calls[to].Policy, Count: 1})
			if err != nil {
				return err
			}
			m.services[name].calls = append(m.services[name].calls, g.members[0])
			m.groups[name+" → "+to] = g
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Clients)) {
		g, err := m.newGroup("client "+name, s.Clients[name])
		if err != nil {
			return err
		}
		for _, fault := range slices.Sorted(maps.Keys(s.Faults)) {
			if f := s.Faults[fault]; f.Client == name {
				g.faults = append(g.faults, f)
			}
		}
		m.groups[name] = g
		g.start()
	}
	m.world.at(0, m, 0)
	return nil
}

// sample returns the index of the sample at a time.
func (m *simulation) sample(now time.Duration) int { return int(now / m.scenario.Interval) }

// act notes the state of the services at the end of each sample.
func (m *simulation) act(uint64) {
	i := m.sample(m.world.now)
	for _, s := range m.services {
		if i < len(s.windows) {
			s.windows[i].Queue, s.windows[i].Busy = s.waiting(), s.busy
		}
	}
	m.world.at(m.world.now+m.scenario.Interval, m, 0)
}
