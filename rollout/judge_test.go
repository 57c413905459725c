package rollout_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/rollout"
)

// group builds counters of clients with equal calls.
func group(clients int, each rollout.Counters) rollout.Counters {
	var total rollout.Counters
	for range clients {
		total.AddClient(each)
	}
	return total
}

func timed(c rollout.Counters, d time.Duration) rollout.Counters {
	for range 20 {
		c.Latency.Observe(d)
	}
	return c
}

func TestS2Verdicts(t *testing.T) {
	calm := timed(rollout.Counters{Calls: 1000, Failures: 10, ExtraAttempts: 10}, 20*time.Millisecond)
	with := func(change func(*rollout.Counters)) rollout.Counters {
		c := calm
		change(&c)
		return group(20, c)
	}
	good := group(20, calm)
	plan := rollout.Plan{Steps: []rollout.Step{{Share: 0.1}, {Share: 1}}}
	for name, c := range map[string]struct {
		plan    rollout.Plan
		see     rollout.Observation
		verdict rollout.Verdict
		reason  rollout.Reason
	}{
		"advances":         {plan, rollout.Observation{Elapsed: time.Hour, Candidate: good}, rollout.Advance, rollout.ReasonHarmless},
		"promotes":         {plan, rollout.Observation{Step: 1, Elapsed: time.Hour, Candidate: good}, rollout.Promote, rollout.ReasonHarmless},
		"holds":            {plan, rollout.Observation{Elapsed: rollout.DefaultHold - 1, Candidate: good}, rollout.Wait, rollout.ReasonHold},
		"lacks candidates": {plan, rollout.Observation{Elapsed: time.Hour}, rollout.Wait, rollout.ReasonSamples},
		"lacks clients":    {plan, rollout.Observation{Elapsed: time.Hour, Candidate: group(1, timed(rollout.Counters{Calls: 20000}, 20*time.Millisecond))}, rollout.Wait, rollout.ReasonSamples},
		"lacks latency":    {plan, rollout.Observation{Elapsed: time.Hour, Candidate: group(20, rollout.Counters{Calls: 1000, Failures: 10})}, rollout.Wait, rollout.ReasonSamples},
		"lacks calls":      {plan, rollout.Observation{Elapsed: time.Hour, Candidate: group(4, timed(rollout.Counters{Calls: 200}, 20*time.Millisecond))}, rollout.Wait, rollout.ReasonSamples},
		"has few clients":  {plan, rollout.Observation{Elapsed: time.Hour, Base: group(2, timed(rollout.Counters{Calls: 1e6}, time.Second)), Candidate: group(2, timed(rollout.Counters{Calls: 1e6}, time.Second))}, rollout.Wait, rollout.ReasonUndecided},
		"is undecided":     {plan, rollout.Observation{Elapsed: time.Hour, Candidate: with(func(c *rollout.Counters) { c.Failures = 20 })}, rollout.Wait, rollout.ReasonUndecided},
		"fails":            {plan, rollout.Observation{Candidate: with(func(c *rollout.Counters) { c.Failures = 40 })}, rollout.Revert, rollout.ReasonFailures},
		"retries":          {plan, rollout.Observation{Candidate: with(func(c *rollout.Counters) { c.ExtraAttempts = 200 })}, rollout.Revert, rollout.ReasonExtraAttempts},
		"is slow":          {plan, rollout.Observation{Candidate: group(20, timed(rollout.Counters{Calls: 1000, Failures: 10}, 40*time.Millisecond))}, rollout.Revert, rollout.ReasonLatency},
		"opens":            {plan, rollout.Observation{Candidate: with(func(c *rollout.Counters) { c.Openings = 20 })}, rollout.Revert, rollout.ReasonOpenings},
		"two clients fail": {plan, rollout.Observation{Candidate: group(2, rollout.Counters{Calls: 200, Failures: 200})}, rollout.Revert, rollout.ReasonFailures},
		"no such step":     {plan, rollout.Observation{Step: 2, Elapsed: time.Hour, Candidate: good}, rollout.Wait, rollout.ReasonInvalid},
		"negative step":    {plan, rollout.Observation{Step: -1, Elapsed: time.Hour, Candidate: good}, rollout.Wait, rollout.ReasonInvalid},
		"bad plan":         {rollout.Plan{Confidence: 2}, rollout.Observation{Elapsed: time.Hour, Candidate: good}, rollout.Wait, rollout.ReasonInvalid},
		"bad counters":     {plan, rollout.Observation{Candidate: rollout.Counters{Calls: 1, Failures: 2}}, rollout.Wait, rollout.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if c.see.Base.Calls == 0 {
				c.see.Base = group(200, calm)
			}
			j := rollout.Judge(c.plan, c.see)
			if j.Verdict != c.verdict || j.Reason != c.reason {
				t.Errorf("%s because of %s, want %s because of %s\n%+v", j.Verdict, j.Reason, c.verdict, c.reason, j.Measures)
			}
		})
	}
}

// TestS2OutageIsNoticedSoon shows how many calls a revision may fail before it is reverted, if it fails them all.
func TestS2OutageIsNoticedSoon(t *testing.T) {
	base := group(200, rollout.Counters{Calls: 1000, Failures: 10})
	for clients, bound := range map[int]int64{1: 200, 2: 200, 10: 200} {
		for calls := int64(1); ; calls++ {
			candidate := group(clients, rollout.Counters{Calls: calls, Failures: calls})
			if rollout.Judge(rollout.Plan{}, rollout.Observation{Base: base, Candidate: candidate}).Verdict == rollout.Revert {
				t.Logf("%d clients: %d calls", clients, candidate.Calls)
				if candidate.Calls > bound {
					t.Errorf("%d clients: reverted after %d calls, want %d at most", clients, candidate.Calls, bound)
				}
				break
			}
		}
	}
}

func genClient(most int64) *rapid.Generator[rollout.Counters] {
	return rapid.Custom(func(t *rapid.T) rollout.Counters {
		c := rollout.Counters{Calls: rapid.Int64Range(0, most).Draw(t, "calls")}
		c.Failures = rapid.Int64Range(0, c.Calls).Draw(t, "failures")
		c.ExtraAttempts = rapid.Int64Range(0, most).Draw(t, "extra")
		c.Openings = rapid.Int64Range(0, most).Draw(t, "openings")
		for range rapid.SampledFrom([]int{0, 0, 19, 20, 30}).Draw(t, "timed") {
			c.Latency.Observe(time.Duration(rapid.Int64Range(-1, math.MaxInt64).Draw(t, "latency")))
		}
		return c
	})
}

func genGroup(most int64) *rapid.Generator[rollout.Counters] {
	return rapid.Custom(func(t *rapid.T) rollout.Counters {
		var total rollout.Counters
		for _, c := range rapid.SliceOfN(genClient(most), 0, 6).Draw(t, "clients") {
			total.AddClient(c)
		}
		return total
	})
}

func genPlan() *rapid.Generator[rollout.Plan] {
	return rapid.Custom(func(t *rapid.T) rollout.Plan {
		threshold := rapid.SampledFrom([]float64{0, 1e-6, 0.01, 0.5, 1, 1e6})
		return rollout.Plan{
			Confidence: rapid.SampledFrom([]float64{0, 0.5, 0.9, 0.999999}).Draw(t, "confidence"),
			Thresholds: rollout.Thresholds{
				FailureShare: threshold.Draw(t, "failures"), ExtraAttempts: threshold.Draw(t, "extra"),
				Latency: threshold.Draw(t, "latency"), Openings: threshold.Draw(t, "openings"),
			},
		}
	})
}

// TestS2JudgementStaysFinite covers empty groups, one client, and counts up to the largest.
func TestS2JudgementStaysFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{0, 1, 1000, math.MaxInt64}).Draw(t, "most")
		see := rollout.Observation{Base: genGroup(most).Draw(t, "base"), Candidate: genGroup(most).Draw(t, "candidate"), Elapsed: time.Hour}
		see.Step = rapid.IntRange(0, 3).Draw(t, "step")
		j := rollout.Judge(genPlan().Draw(t, "plan"), see)
		if _, err := json.Marshal(j); err != nil {
			t.Fatal(err)
		}
		for _, m := range j.Measures {
			if m.Finding != rollout.Unknown && (m.Low > m.Difference || m.High < m.Difference) {
				t.Fatalf("difference outside its interval: %+v", m)
			}
		}
	})
}

func TestS2TooFewNeverAdvance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calm := timed(rollout.Counters{Calls: rapid.Int64Range(1, 1e6).Draw(t, "calls")}, time.Millisecond)
		base := group(rapid.IntRange(0, 30).Draw(t, "base"), calm)
		candidate := group(rapid.IntRange(0, 30).Draw(t, "candidate"), calm)
		step := rollout.Step{Share: 1, Hold: 1 + time.Duration(rapid.Int64Range(0, 100).Draw(t, "hold")), MinSamples: rapid.Int64Range(1, 1e6).Draw(t, "least")}
		elapsed := time.Duration(rapid.Int64Range(0, 200).Draw(t, "elapsed"))
		j := rollout.Judge(rollout.Plan{Steps: []rollout.Step{step}}, rollout.Observation{Elapsed: elapsed, Base: base, Candidate: candidate})
		few := min(base.Calls, candidate.Calls) < step.MinSamples || min(base.Spread.Clients, candidate.Spread.Clients) < 2
		if j.Verdict != rollout.Wait && (few || elapsed < step.Hold) {
			t.Fatalf("%+v", j)
		}
	})
}

// TestS2MoreFailuresNeverAdvance: a revision that is reverted does not advance because one of its clients fails more.
func TestS2MoreFailuresNeverAdvance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := genGroup(5000).Draw(t, "base")
		clients := rapid.SliceOfN(genClient(5000), 1, 5).Draw(t, "candidate")
		judge := func() rollout.Verdict {
			var candidate rollout.Counters
			for _, c := range clients {
				candidate.AddClient(c)
			}
			return rollout.Judge(rollout.Plan{}, rollout.Observation{Elapsed: time.Hour, Base: base, Candidate: candidate}).Verdict
		}
		before := judge()
		worse := &clients[rapid.IntRange(0, len(clients)-1).Draw(t, "worse")]
		worse.Failures = rapid.Int64Range(worse.Failures, worse.Calls).Draw(t, "failures")
		if after := judge(); before == rollout.Revert && after == rollout.Advance {
			t.Fatalf("%s became %s", before, after)
		}
	})
}

// TestS2SwappedGroups: exchanging the groups mirrors every difference, and a measure is not worse in both directions.
func TestS2SwappedGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genGroup(5000).Draw(t, "a"), genGroup(5000).Draw(t, "b")
		there := rollout.Judge(rollout.Plan{}, rollout.Observation{Base: a, Candidate: b}).Measures
		back := rollout.Judge(rollout.Plan{}, rollout.Observation{Base: b, Candidate: a}).Measures
		for i, m := range there {
			n := back[i]
			higher, lower := max(m.Difference, n.Difference), min(m.Difference, n.Difference)
			mirrored := -higher
			if m.Name == rollout.ReasonLatency || m.Name == rollout.ReasonExtraAttempts { // relative to the base
				mirrored = 1/(1+higher) - 1
			}
			if !(math.Abs(lower-mirrored) < 1e-6) || m.Base != n.Candidate || m.Finding == rollout.Worse && n.Finding == rollout.Worse {
				t.Fatalf("%+v\n%+v", m, n)
			}
		}
	})
}

// TestS2ImpossibleSpread: sums that overflow say nothing.
func TestS2ImpossibleSpread(t *testing.T) {
	c := group(3, timed(rollout.Counters{Calls: 1000, Failures: 10}, time.Millisecond))
	c.Spread.Openings.Squared = math.Inf(1)
	j := rollout.Judge(rollout.Plan{}, rollout.Observation{Elapsed: time.Hour, Base: c, Candidate: c})
	if j.Verdict != rollout.Wait || j.Measures[3].Finding != rollout.Unknown {
		t.Errorf("%+v", j)
	}
}
