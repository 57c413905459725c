package rollout_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenetdev/tenet/rollout"
)

// fleet is a simulated fleet: every client makes the same number of calls between two looks.
type fleet struct {
	clients int
	calls   int64         // of each client between two looks
	look    time.Duration // between two judgements
	failing float64       // share of calls that fail under the old revision
	harm    float64       // added to failing by the new revision
	// spread is the standard deviation between clients of the share that fails, and slowness that of the logarithm of latency.
	spread, slowness float64
	slower           float64 // factor on latency by the new revision
	reports          bool    // members of the groups are reports instead of clients
}

type client struct {
	place    float64
	own      float64 // deviation of the share that fails
	pace     float64 // logarithm of its 95th percentile of latency
	looks    float64
	counters rollout.Counters
}

// outcome is how a simulated rollout ended.
type outcome struct {
	verdict rollout.Verdict
	reason  rollout.Reason
	step    int
	took    time.Duration
	samples int64 // calls under the new revision
}

// run simulates the first steps of a rollout until it is promoted or reverted, until a step has lasted longest, or until it
// has left the last of the steps.
func (f fleet) run(plan rollout.Plan, seed uint64, steps int, longest time.Duration) outcome {
	plan = plan.WithDefaults()
	r := rand.New(rand.NewPCG(seed, 1))
	clients := make([]client, f.clients)
	for i := range clients {
		clients[i] = client{place: float64(i) / float64(f.clients), own: f.spread * r.NormFloat64(), pace: f.slowness * r.NormFloat64()}
	}
	var end outcome
	var base rollout.Counters
	for step := range steps {
		for i := range clients {
			clients[i].counters, clients[i].looks = rollout.Counters{}, 0
		}
		var old, candidate rollout.Counters
		for elapsed := f.look; ; elapsed += f.look {
			if !f.reports {
				old, candidate = rollout.Counters{}, rollout.Counters{}
			}
			for i := range clients {
				c := &clients[i]
				isNew := plan.Selects(step, c.place, nil)
				if f.reports {
					c.counters, c.looks = rollout.Counters{}, 0
				}
				end.samples += f.calling(c, isNew, r)
				group := &old
				if isNew {
					group = &candidate
				}
				group.AddClient(c.counters)
				x := f.latency(c, isNew, r)
				group.Spread.Latency.Clients++
				group.Spread.Latency.Sum += x
				group.Spread.Latency.Squared += x * x
			}
			if old.Calls > 0 {
				base = old
			}
			j := rollout.Judge(plan, rollout.Observation{Step: step, Elapsed: elapsed, Base: base, Candidate: candidate})
			end.verdict, end.reason, end.step = j.Verdict, j.Reason, step
			if j.Verdict != rollout.Wait || elapsed >= longest {
				end.took += elapsed
				break
			}
		}
		if end.verdict != rollout.Advance {
			return end
		}
	}
	return end
}

// calling makes the calls of one client between two looks and returns how many of them ran under the new revision.
func (f fleet) calling(c *client, isNew bool, r *rand.Rand) int64 {
	failing := f.failing + c.own
	if isNew {
		failing += f.harm
	}
	failures := binomial(r, f.calls, failing)
	c.counters.Calls += f.calls
	c.counters.Failures += failures
	c.counters.ExtraAttempts += failures
	c.looks++
	if isNew {
		return f.calls
	}
	return 0
}

// latency is the logarithm of the client's measured 95th percentile, whose error shrinks with the looks.
func (f fleet) latency(c *client, isNew bool, r *rand.Rand) float64 {
	x := c.pace + 0.1/math.Sqrt(c.looks)*r.NormFloat64()
	if isNew && f.slower > 0 {
		x += math.Log(f.slower)
	}
	return x
}

// binomial draws by jumping from one success to the next, or from the normal distribution if there are many.
func binomial(r *rand.Rand, n int64, p float64) int64 {
	mean := float64(n) * p
	switch {
	case p <= 0:
		return 0
	case mean*(1-p) > 9:
		return min(max(int64(math.Round(mean+math.Sqrt(mean*(1-p))*r.NormFloat64())), 0), n)
	}
	var successes int64
	scale := 1 / math.Log1p(-min(p, 0.999999))
	for at := 0.0; ; successes++ {
		if at += math.Floor(-r.ExpFloat64()*scale) + 1; at > float64(n) {
			return min(successes, n)
		}
	}
}

// tally runs the fleet with seeds from 0 and counts how the rollouts ended.
func (f fleet) tally(t *testing.T, plan rollout.Plan, runs uint64, steps int, longest time.Duration) map[rollout.Verdict]int {
	t.Helper()
	count := map[rollout.Verdict]int{}
	reasons := map[rollout.Reason]int{}
	var ends []outcome
	for seed := range runs {
		o := f.run(plan, seed, steps, longest)
		count[o.verdict]++
		reasons[o.reason]++
		ends = append(ends, o)
	}
	slices.SortFunc(ends, func(a, b outcome) int { return cmp.Compare(a.took, b.took) })
	middle, last := ends[len(ends)/2], ends[len(ends)*99/100]
	t.Logf("%+v: %v %v; median %v and %d calls under the new revision, 99th percentile %v and %d",
		f, count, reasons, middle.took, middle.samples, last.took, last.samples)
	return count
}

// runs is a number of simulations, of which -short does a tenth.
func runs(full uint64) uint64 {
	if testing.Short() {
		return full / 10
	}
	return full
}

// TestS2BadRevisionIsReverted and the next test check the promised rates on a fleet whose clients are alike.
func TestS2BadRevisionIsReverted(t *testing.T) {
	t.Parallel()
	for _, failing := range []float64{0.01, 0.05} {
		f := fleet{clients: 200, calls: 200, look: 10 * time.Second, failing: failing, harm: 0.02}
		count := f.tally(t, rollout.Plan{}, runs(1000), 1, 2*time.Hour)
		if float64(count[rollout.Revert]) < 0.999*float64(runs(1000)) {
			t.Errorf("base %g: %d of %d bad revisions were reverted at 1 %%", failing, count[rollout.Revert], runs(1000))
		}
	}
}

func TestS2GoodRevisionIsPromoted(t *testing.T) {
	t.Parallel()
	for _, failing := range []float64{0.01, 0.05} {
		f := fleet{clients: 200, calls: 600, look: 30 * time.Second, failing: failing}
		count := f.tally(t, rollout.Plan{}, runs(1000), 4, 2*time.Hour)
		if float64(count[rollout.Promote]) < 0.95*float64(runs(1000)) {
			t.Errorf("base %g: %d of %d good revisions were promoted", failing, count[rollout.Promote], runs(1000))
		}
	}
}

// TestS2ClientsThatDiffer repeats both on a fleet whose clients fail and respond differently under the old revision already.
func TestS2ClientsThatDiffer(t *testing.T) {
	t.Parallel()
	plan := rollout.Plan{Steps: []rollout.Step{{Share: 0.1}, {Share: 0.5}, {Share: 1}}}
	f := fleet{clients: 400, calls: 300, look: 15 * time.Second, failing: 0.05, spread: 0.008, slowness: 0.5}
	n := runs(200)
	if count := f.tally(t, plan, n, 3, 2*time.Hour); float64(count[rollout.Promote]) < 0.95*float64(n) {
		t.Errorf("%d of %d good revisions were promoted", count[rollout.Promote], n)
	}
	f.harm = 0.02
	if count := f.tally(t, plan, n, 1, 4*time.Hour); count[rollout.Advance] > 0 || float64(count[rollout.Revert]) < 0.95*float64(n) {
		t.Errorf("of %d bad revisions, %d advanced and %d were reverted", n, count[rollout.Advance], count[rollout.Revert])
	}
}

// TestS2SmallFleet has one client of three on the new revision first, and adds reports.
func TestS2SmallFleet(t *testing.T) {
	t.Parallel()
	plan := rollout.Plan{Steps: []rollout.Step{{Share: 0.3}, {Share: 1}}}
	f := fleet{clients: 3, calls: 100, look: 5 * time.Second, failing: 0.01, reports: true}
	if count := f.tally(t, plan, 100, 2, 2*time.Hour); count[rollout.Promote] < 95 {
		t.Errorf("%d of 100 good revisions were promoted", count[rollout.Promote])
	}
	f.harm = 0.02
	if count := f.tally(t, plan, 100, 1, 2*time.Hour); count[rollout.Revert] < 100 {
		t.Errorf("%d of 100 bad revisions were reverted", count[rollout.Revert])
	}
}

// TestS2StatedErrorRate puts the harm exactly at a threshold, where every verdict but wait is an error, and looks 400
// times. The plan's confidence of 90 % leaves each of the four measures 2.5 %; at most two of
// them are at their thresholds.
func TestS2StatedErrorRate(t *testing.T) {
	t.Parallel()
	half := []rollout.Step{{Share: 0.5, Hold: 1, MinSamples: 1}}
	few := []rollout.Step{{Share: 0.05, Hold: 1, MinSamples: 1}}
	for name, c := range map[string]struct {
		fleet fleet
		steps []rollout.Step
	}{
		"alike":            {fleet{clients: 40, failing: 0.05, harm: 0.01}, half},
		"rare failures":    {fleet{clients: 40, failing: 0.001, harm: 0.01}, half},
		"differ":           {fleet{clients: 40, failing: 0.1, harm: 0.01, spread: 0.02}, half},
		"two of forty":     {fleet{clients: 40, failing: 0.1, harm: 0.01, spread: 0.02}, few},
		"slower":           {fleet{clients: 40, failing: 0.05, harm: 0.01, slower: 1.25, slowness: 0.3}, half},
		"two of 5 slower":  {fleet{clients: 5, failing: 0.05, harm: 0.01, slower: 1.25, slowness: 0.3}, []rollout.Step{{Share: 0.4, Hold: 1, MinSamples: 1}}},
		"reports of three": {fleet{clients: 3, failing: 0.05, harm: 0.01, slower: 1.25, reports: true}, []rollout.Step{{Share: 0.3, Hold: 1, MinSamples: 1}}},
		"two of 40 slower": {fleet{clients: 40, failing: 0.05, harm: 0.01, slower: 1.25, slowness: 0.3}, few},
	} {
		t.Run(name, func(t *testing.T) {
			f := c.fleet
			f.calls, f.look = 100, time.Second
			plan := rollout.Plan{Steps: c.steps, Confidence: 0.9}
			n := runs(200)
			count := f.tally(t, plan, n, 1, 400*time.Second)
			if wrong := count[rollout.Revert] + count[rollout.Promote]; uint64(wrong) > n/20 { // 5 %, and chance with 200 runs
				t.Errorf("%d of %d verdicts were wrong", wrong, n)
			}
		})
	}
}
