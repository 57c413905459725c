package rollout

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Defaults of a plan.
const (
	DefaultHold          = 5 * time.Minute
	DefaultMinSamples    = 1000
	DefaultFailureShare  = 0.01
	DefaultExtraAttempts = 0.05
	DefaultLatency       = 0.25
	DefaultOpenings      = 0.005
	DefaultConfidence    = 0.999
)

// Plan says in which steps a revision is delivered and what counts as harm. A zero field takes its default.
type Plan struct {
	// Steps in order. Default 1 %, 10 %, 50 %, 100 %. After the last step the revision is promoted: everyone gets it.
	Steps []Step `json:"steps,omitempty"`
	// Thresholds are the increases from which on a revision counts as worse.
	Thresholds Thresholds `json:"thresholds,omitzero"`
	// Confidence with which all intervals of one step contain the truth at every look. Default 0.999.
	Confidence float64 `json:"confidence,omitempty"`
}

// Step is one stage of a rollout: who gets the new revision, and how long at least.
type Step struct {
	// Share of all clients, above 0 and at most 1. Absent if the step selects by labels only.
	Share float64 `json:"share,omitempty"`
	// Labels select every client that carries all of them, beside the clients of the share.
	Labels map[string]string `json:"labels,omitempty"`
	// Hold is how long the step lasts at least, in seconds. Default 300.
	Hold time.Duration `json:"hold,omitempty"`
	// MinSamples is the least number of calls in each group before the step can end well. Default 1000.
	MinSamples int64 `json:"min_samples,omitempty"`
}

// Thresholds are the increases, from the old revision to the new one, from which on the new one counts as worse.
type Thresholds struct {
	// FailureShare is the increase of the share of failed calls: 0.01 is one percentage point. Default 0.01.
	FailureShare float64 `json:"failure_share,omitempty"`
	// ExtraAttempts is the relative increase of attempts per call, the first attempt included: 0.05 is 5 % more load on what
	// the calls reach. Default 0.05.
	ExtraAttempts float64 `json:"extra_attempts,omitempty"`
	// Latency is the relative increase of the typical client's 95th percentile. Default 0.25.
	Latency float64 `json:"latency,omitempty"`
	// Openings is the increase of breaker openings per call. Default 0.005.
	Openings float64 `json:"openings,omitempty"`
}

// WithDefaults fills the absent fields. It does not change p.
func (p Plan) WithDefaults() Plan {
	p.Steps = slices.Clone(p.Steps)
	if len(p.Steps) == 0 {
		p.Steps = []Step{{Share: 0.01}, {Share: 0.1}, {Share: 0.5}, {Share: 1}}
	}
	for i := range p.Steps {
		p.Steps[i].Hold = cmp.Or(p.Steps[i].Hold, DefaultHold)
		p.Steps[i].MinSamples = cmp.Or(p.Steps[i].MinSamples, DefaultMinSamples)
	}
	t := &p.Thresholds
	t.FailureShare = cmp.Or(t.FailureShare, DefaultFailureShare)
	t.ExtraAttempts = cmp.Or(t.ExtraAttempts, DefaultExtraAttempts)
	t.Latency = cmp.Or(t.Latency, DefaultLatency)
	t.Openings = cmp.Or(t.Openings, DefaultOpenings)
	p.Confidence = cmp.Or(p.Confidence, DefaultConfidence)
	return p
}

// Validate returns a *[policy.ValidationError] with the path of every faulty field, or nil. A zero field is absent.
func (p Plan) Validate() error {
	var faults []policy.Violation
	add := func(path, problem, remedy string) {
		faults = append(faults, policy.Violation{Path: path, Problem: problem, Remedy: remedy})
	}
	var largest float64
	for i, s := range p.Steps {
		path := "steps[" + strconv.Itoa(i) + "]."
		switch {
		case !(s.Share >= 0 && s.Share <= 1): // NaN too
			add(path+"share", fmt.Sprintf("%g is not a share", s.Share), "write a number above 0 and at most 1")
		case s.Share == 0 && len(s.Labels) == 0:
			add(path+"share", "missing", "write a share or labels")
		case s.Share != 0 && s.Share < largest:
			add(path+"share", fmt.Sprintf("%g is below the share of an earlier step", s.Share), "let the shares grow")
		default:
			largest = max(largest, s.Share)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
			if name == "" || s.Labels[name] == "" {
				add(path+"labels", fmt.Sprintf("label %q=%q is incomplete", name, s.Labels[name]), "give each label a name and a value")
			}
		}
		if s.Hold < 0 {
			add(path+"hold", s.Hold.String()+" is negative", "write a duration above 0")
		}
		if s.MinSamples < 0 {
			add(path+"min_samples", fmt.Sprintf("%d is negative", s.MinSamples), "write a number above 0")
		}
	}
	for _, t := range []struct {
		name  string
		value float64
	}{
		{"failure_share", p.Thresholds.FailureShare},
		{"extra_attempts", p.Thresholds.ExtraAttempts},
		{"latency", p.Thresholds.Latency},
		{"openings", p.Thresholds.Openings},
	} {
		if t.value != 0 && !(t.value >= leastThreshold && t.value <= 1/leastThreshold) {
			add("thresholds."+t.name, fmt.Sprintf("%g is out of range", t.value), fmt.Sprintf("write a number from %g to %g", leastThreshold, 1/leastThreshold))
		}
	}
	if p.Confidence != 0 && !(p.Confidence >= 0.5 && p.Confidence <= 0.999999) {
		add("confidence", fmt.Sprintf("%g is out of range", p.Confidence), "write a number from 0.5 to 0.999999")
	}
	if len(faults) > 0 {
		return &policy.ValidationError{Violations: faults}
	}
	return nil
}

// leastThreshold is far below any difference that a fleet can show.
const leastThreshold = 1e-6

// Selects reports whether the new revision is delivered to a client at a step. Position is the client's place from
// [Assign]. A client selected by one step stays selected in all later ones.
func (p Plan) Selects(step int, position float64, labels map[string]string) bool {
	for i, s := range p.Steps {
		if i <= step && (position < s.Share || s.carriedBy(labels)) {
			return true
		}
	}
	return false
}

func (s Step) carriedBy(labels map[string]string) bool {
	for name, value := range s.Labels {
		if have, ok := labels[name]; !ok || have != value {
			return false
		}
	}
	return len(s.Labels) > 0
}

// ParseSteps reads shares such as "1%,10%,50%,100%". Each step lasts at least hold; 0 is the default.
func ParseSteps(text string, hold time.Duration) ([]Step, error) {
	var steps []Step
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		number, isPercent := strings.CutSuffix(part, "%")
		percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !isPercent || err != nil {
			return nil, fmt.Errorf("rollout: %q is not a share such as \"10%%\"", part)
		}
		if !(percent > 0 && percent <= 100) {
			return nil, fmt.Errorf("rollout: share %q must be above 0%% and at most 100%%", part)
		}
		steps = append(steps, Step{Share: percent / 100, Hold: hold})
	}
	if err := (Plan{Steps: steps}).Validate(); err != nil {
		return nil, fmt.Errorf("rollout: steps %q: %w", text, err)
	}
	return steps, nil
}

// stepJSON is a step as documents write it.
type stepJSON struct {
	Share      float64           `json:"share,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Hold       json.RawMessage   `json:"hold,omitempty"`
	MinSamples int64             `json:"min_samples,omitempty"`
}

// MarshalJSON writes the hold as seconds.
func (s Step) MarshalJSON() ([]byte, error) {
	doc := stepJSON{Share: s.Share, Labels: s.Labels, MinSamples: s.MinSamples}
	if s.Hold != 0 {
		doc.Hold = strconv.AppendFloat(nil, s.Hold.Seconds(), 'f', -1, 64)
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads the hold as seconds or as a string such as "5m". An unknown field is an error.
func (s *Step) UnmarshalJSON(data []byte) error {
	var doc stepJSON
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return fmt.Errorf("rollout: step: %w", err)
	}
	hold, err := readHold(doc.Hold)
	if err != nil {
		return fmt.Errorf("rollout: step: hold: %w", err)
	}
	*s = Step{Share: doc.Share, Labels: doc.Labels, Hold: hold, MinSamples: doc.MinSamples}
	return nil
}

func readHold(raw json.RawMessage) (time.Duration, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return policy.ParseDuration(text)
	}
	var seconds float64
	if err := json.Unmarshal(raw, &seconds); err != nil {
		return 0, fmt.Errorf("%s is neither a number of seconds nor a string such as \"5m\"", raw)
	}
	return policy.Seconds(seconds)
}
