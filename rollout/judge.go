package rollout

import "time"

// Verdict is what to do with a rollout now.
type Verdict string

// The verdicts.
const (
	Wait    Verdict = "wait"    // keep the step
	Advance Verdict = "advance" // begin the next step
	Promote Verdict = "promote" // the last step ended well: everyone gets the new revision
	Revert  Verdict = "revert"  // everyone goes back to the old revision
)

// Reason is why.
type Reason string

// The reasons of a verdict.
const (
	ReasonInvalid       Reason = "invalid"        // wait: the plan, the step or the counters are impossible
	ReasonSamples       Reason = "samples"        // wait: too few calls, clients or measured latencies in a group
	ReasonHold          Reason = "hold"           // wait: the step has not lasted long enough
	ReasonUndecided     Reason = "undecided"      // wait: harm is neither shown nor excluded
	ReasonHarmless      Reason = "harmless"       // advance, promote
	ReasonFailures      Reason = "failures"       // revert: the share of failures grew
	ReasonExtraAttempts Reason = "extra_attempts" // revert: calls take more attempts
	ReasonLatency       Reason = "latency"        // revert: calls are slower
	ReasonOpenings      Reason = "openings"       // revert: breakers open more often
)

// Observation is what a judgement looks at.
type Observation struct {
	// Step is the index of the current step.
	Step int
	// Elapsed is the time since the step began.
	Elapsed time.Duration
	// Base and Candidate count the calls of the clients on the old and on the new revision since the step began, each filled
	// with AddClient. In a step for all clients nobody is left on the old revision: keep the Base of the step before.
	Base, Candidate Counters
}

// Judgement is a verdict with its evidence.
type Judgement struct {
	Verdict Verdict `json:"verdict"`
	Reason  Reason  `json:"reason"`
	// Measures in the order failures, extra_attempts, latency, openings.
	Measures []Measure `json:"measures,omitempty"`
}

// Measure is the evidence on one measure.
type Measure struct {
	// Name is the reason with which this measure reverts.
	Name Reason `json:"name"`
	// Base and Candidate are the values of the two groups: failures, extra attempts and openings per call, and the typical
	// client's 95th percentile of latency in seconds.
	Base      float64 `json:"base"`
	Candidate float64 `json:"candidate"`
	// Difference is the increase: absolute for failures and openings, relative for attempts per call and latency.
	Difference float64 `json:"difference"`
	// Low and High bound the difference at every look with the plan's confidence. Both are 0 while Finding is unknown.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Threshold is the increase from which on the measure counts as worse.
	Threshold float64 `json:"threshold"`
	Finding   Finding `json:"finding"`
}

// Finding is what a measure shows.
type Finding string

// The findings.
const (
	Unknown   Finding = "unknown"   // a group has no samples
	Undecided Finding = "undecided" // the interval contains the threshold
	Harmless  Finding = "harmless"  // the interval lies below the threshold
	Worse     Finding = "worse"     // the interval lies above the threshold
)

// Judge compares the clients on the new revision with those on the old one. It can be called as often as wanted: the error
// rate holds for all calls of a step together.
//
//   - Any measure worse: revert, at once.
//   - Fewer than MinSamples calls or fewer than two members in a group, or no latency: wait.
//   - Hold not over: wait.
//   - Failures, extra attempts and openings harmless, latency not worse: advance, or promote after the last step.
//   - Otherwise wait.
func Judge(plan Plan, o Observation) Judgement {
	plan = plan.WithDefaults()
	if plan.Validate() != nil || o.Step < 0 || o.Step >= len(plan.Steps) || o.Base.Validate() != nil || o.Candidate.Validate() != nil {
		return Judgement{Verdict: Wait, Reason: ReasonInvalid}
	}
	j := Judgement{Measures: measures(plan, o.Base, o.Candidate)}
	j.Verdict, j.Reason = decide(plan, o, j.Measures)
	return j
}

func decide(plan Plan, o Observation, measures []Measure) (Verdict, Reason) {
	step := plan.Steps[o.Step]
	known, harmless := true, true
	for _, m := range measures {
		if m.Finding == Worse {
			return Revert, m.Name
		}
		known = known && m.Finding != Unknown
		harmless = harmless && (m.Finding == Harmless || m.Name == ReasonLatency)
	}
	switch {
	case !known, min(o.Base.Calls, o.Candidate.Calls) < step.MinSamples, min(o.Base.Spread.Clients, o.Candidate.Spread.Clients) < 2:
		return Wait, ReasonSamples
	case o.Elapsed < step.Hold:
		return Wait, ReasonHold
	case !harmless:
		return Wait, ReasonUndecided
	case o.Step == len(plan.Steps)-1:
		return Promote, ReasonHarmless
	}
	return Advance, ReasonHarmless
}
