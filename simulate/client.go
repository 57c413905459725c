package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// errEnded is the result of requests that were under way when the simulation ended.
var errEnded = classify.Permanent(errors.New("the simulation has ended"))

// caller is one client, or one service as the client of another: an executor and what it calls.
type caller struct {
	group     *group
	executor  *retry.Executor
	call      func()
	operation retry.Operation
}

// group is a group of equal callers.
type group struct {
	*simulation
	spec    Client
	key     policy.Key
	service *service
	members []*caller
	jobs    *fleet // runs the group's calls as jobs; nil for calls
	hedged  bool
	random  stream
	faults  []Fault
	peak    float64 // the highest factor of the load
	next    int     // member, for regular arrivals
	due     float64 // part of the next regular call that is due when act runs: 1 makes it
	windows []ClientSample
	total   ClientTotals
	latency []histogram // by sample
	all     histogram
}

// newExecutor makes the executor of a client or service.
func (m *simulation) newExecutor(keys int) *retry.Executor {
	return retry.NewExecutor(retry.ExecutorOptions{Provider: m.policies, MaxKeys: keys + 1, World: m.world})
}

// newGroup makes a group of callers, which share an executor if there is one. name identifies the group's random numbers.
func (m *simulation) newGroup(name string, spec Client, shared *retry.Executor) *group {
	g := &group{
		simulation: m, spec: spec, key: policy.ParseKey(spec.Policy), service: m.services[spec.Service],
		random: newStream(m.seed, name), windows: make([]ClientSample, m.samples), latency: make([]histogram, m.samples), peak: 1,
	}
	g.total.Reasons = map[string]int64{}
	if spec.Job.Type != "" {
		g.jobs = newFleet(g)
		return g
	}
	if spec.Policy != "" {
		p, _ := m.policies.Policy(context.Background(), g.key) // a Set never fails
		g.hedged = p.Hedge.Enabled
	}
	for range spec.Count {
		c := &caller{group: g, executor: shared}
		if shared == nil {
			c.executor = m.newExecutor(1)
		}
		c.call, c.operation = func() { _ = c.do() }, c.attempt
		g.members = append(g.members, c)
	}
	return g
}

// start schedules the group's first call.
func (g *group) start() {
	for i := range g.faults {
		g.peak *= max(g.faults[i].Load, 1)
	}
	if g.jobs != nil {
		g.jobs.start()
	}
	g.world.at(g.gap(), g)
}

// rate returns the calls per second of the whole group.
func (g *group) rate() float64 { return g.spec.Rate * float64(g.spec.Count) }

// load returns the factor of the load at a time.
func (g *group) load(now time.Duration) float64 {
	factor := 1.0
	for i := range g.faults {
		factor *= g.faults[i].factor(g.faults[i].Load, now)
	}
	return factor
}

// gap returns the time until the next call or, while the load may change, the next look at it. Random arrivals are drawn at the peak of
// the load, and thinned (Lewis and Shedler, 1979). Regular ones add up at the load of each moment.
func (g *group) gap() time.Duration {
	gaps := 1 / g.peak // at a load of 1
	if g.spec.Arrivals != Regular {
		gaps *= g.random.exponential()
	} else if load := g.load(g.world.now); g.due+load*gaps < 1-1e-9 { // sums of fractions may fall short of 1
		g.due += load * gaps
	} else {
		gaps, g.due = max(1-g.due, 0)/load, 1
	}
	return max(nanoseconds(gaps*float64(time.Second)/g.rate()), 1)
}

// act makes the next call, if it is time for it.
func (g *group) act() {
	now := g.world.now
	regular, comes := g.spec.Arrivals == Regular, g.due == 1
	if comes {
		g.due = 0
	}
	g.world.at(now+g.gap(), g)
	if !regular {
		load := g.load(now)
		comes = g.peak == 1 && load >= 1 || g.random.unit()*g.peak < load
	}
	if !comes {
		return
	}
	if g.jobs != nil {
		g.jobs.enqueue()
		return
	}
	member := g.next
	if regular {
		g.next = (g.next + 1) % len(g.members)
	} else {
		member = g.random.below(len(g.members))
	}
	g.world.Go(g.members[member].call)
}

// do makes one call with the production executor and counts it.
func (c *caller) do() error {
	g := c.group
	began := g.world.now
	g.count(began, func(t *ClientCounts) { t.Calls++ })
	var err error
	if g.spec.Policy == "" { // a single attempt
		err = c.attempt(context.Background())
	} else {
		g.world.running.seed = g.random.next()
		err = c.executor.Do(context.Background(), g.key, c.operation)
	}
	if g.world.ended {
		return err
	}
	if err == nil {
		g.succeeded(began)
		return nil
	}
	reason := "failed"
	if failure, ok := errors.AsType[*retry.Error](err); ok {
		reason = string(failure.Reason)
	}
	g.failed(began, reason)
	return err
}

// attempt is the operation of a call: a request to the service, and the wait for its response.
func (c *caller) attempt(ctx context.Context) error {
	g, w := c.group, c.group.world
	if w.ended {
		return errEnded
	}
	began := w.now
	g.count(began, func(t *ClientCounts) { t.Attempts++ })
	end := forever
	if deadline, ok := ctx.Deadline(); ok {
		end = deadline.Sub(virtual.Epoch)
	}
	if !g.travel(ctx, end) {
		return g.gaveUp(ctx)
	}
	t, r := w.running, g.service.arrive()
	if !t.answered {
		g.wait(ctx, end-w.now)
	}
	if !t.answered {
		r.task = nil
		return g.gaveUp(ctx)
	}
	if !g.travel(ctx, end) {
		return g.gaveUp(ctx)
	}
	return t.response
}

// travel waits for the network. It returns false if the attempt ended before.
func (g *group) travel(ctx context.Context, end time.Duration) bool {
	if g.spec.Network.Mean == 0 {
		return true
	}
	w, d := g.world, g.spec.Network.draw(&g.random)
	wait := min(d, end-w.now)
	g.wait(ctx, wait)
	return wait == d && ctx.Err() == nil && !w.ended
}

// wait waits for d or, in a hedged attempt, until ctx ends.
func (g *group) wait(ctx context.Context, d time.Duration) {
	if g.hedged {
		g.world.Await(d, ctx, func() bool { return ctx.Err() != nil })
	} else {
		g.world.park(d)
	}
}

func (g *group) gaveUp(ctx context.Context) error {
	if g.world.ended {
		return errEnded
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// succeeded counts a call that has succeeded now.
func (g *group) succeeded(began time.Duration) {
	now := g.world.now
	if i := g.sample(); i < len(g.latency) {
		g.latency[i].add(now - began)
	}
	if g.warm(began) {
		g.all.add(now - began)
	}
	g.count(began, func(t *ClientCounts) { t.Succeeded++ })
}

// failed counts a call that has failed now.
func (g *group) failed(began time.Duration, reason string) {
	g.count(began, func(t *ClientCounts) { t.Failed++ })
	if g.warm(began) {
		g.total.Reasons[reason]++
	}
}

// count counts in the current sample and, if the call or attempt began after the warm-up, in the totals.
func (g *group) count(began time.Duration, add func(*ClientCounts)) {
	if i := g.sample(); i < len(g.windows) {
		add(&g.windows[i].ClientCounts)
	}
	if g.warm(began) {
		add(&g.total.ClientCounts)
	}
}
