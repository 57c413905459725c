package ui

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
)

// planForm is a rollout as a person fills it in. A field that is empty takes its default.
type planForm struct {
	Steps, Hold, MinSamples                          string
	FailureShare, ExtraAttempts, Latency, Confidence string
	Openings                                         string
}

// defaultSteps are the steps that a form suggests.
const defaultSteps = "1%,10%,50%,100%"

func (r *request) planForm() planForm {
	v := r.PostFormValue
	return planForm{
		Steps: v("steps"), Hold: v("hold"), MinSamples: v("min_samples"), FailureShare: v("failure_share"), ExtraAttempts: v("extra_attempts"),
		Latency: v("latency"), Openings: v("openings"), Confidence: v("confidence"),
	}
}

// fields are the inputs of the form.
func (f planForm) fields() []field {
	return []field{
		{Name: "steps", Label: "Roll out in steps of clients", Value: f.Steps, Help: "For example " + defaultSteps + ". Empty: every client gets the revision at once.", Flag: "--rollout VALUE"},
		{Name: "hold", Label: "Each step lasts at least", Value: f.Hold, Help: "For example 5m, which is the default.", Flag: "--hold VALUE"},
	}
}

// plan returns the plan, or nil for none.
func (f planForm) plan() (*api.Plan, error) {
	if f.Steps = strings.TrimSpace(f.Steps); f.Steps == "" {
		if f != (planForm{}) {
			return nil, errors.New(sentence("write the steps, or leave the other fields of the rollout empty"))
		}
		return nil, nil
	}
	var faults []error
	plan := rollout.Plan{}
	hold, err := holdOf(f.Hold)
	faults = append(faults, err)
	plan.Steps, err = rollout.ParseSteps(f.Steps, hold)
	faults = append(faults, err)
	share := func(name, text string) float64 {
		value, err := shareOf(name, text)
		faults = append(faults, err)
		return value
	}
	if text := strings.TrimSpace(f.MinSamples); text != "" {
		samples, err := strconv.ParseInt(text, 10, 64)
		if err != nil || samples < 1 {
			faults = append(faults, fmt.Errorf("fewest calls: %q is not a number above 0", text))
		}
		for i := range plan.Steps {
			plan.Steps[i].MinSamples = samples
		}
	}
	plan.Thresholds = rollout.Thresholds{
		FailureShare: share("more failed calls", f.FailureShare), ExtraAttempts: share("more attempts per call", f.ExtraAttempts),
		Latency: share("longer 95th percentile", f.Latency), Openings: share("more breaker openings", f.Openings),
	}
	plan.Confidence = share("confidence", f.Confidence)
	if err := errors.Join(faults...); err != nil {
		return nil, errors.New(sentence(strings.ReplaceAll(err.Error(), "\n", "; ")))
	}
	return api.NewPlan(&plan), nil
}

// holdOf reads how long a step lasts; 0 for the default.
func holdOf(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	hold, err := policy.ParseDuration(text)
	if err != nil || hold <= 0 {
		return 0, fmt.Errorf("each step lasts at least: %q is not a duration such as 5m", text)
	}
	return hold, nil
}

// shareOf reads a share such as 1%; 0 for the default.
func shareOf(name, text string) (float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	number, isPercent := strings.CutSuffix(text, "%")
	value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !isPercent || !(value > 0) {
		return 0, fmt.Errorf("%s: %q is not a share such as 1%%", name, text)
	}
	return value / 100, nil
}

// sentence begins a text with a capital letter and ends it with a full stop.
func sentence(text string) string {
	text = strings.TrimPrefix(text, "rollout: ")
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
