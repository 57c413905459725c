package ui

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
	"github.com/tenetdev/tenet/server/internal/params"
)

type rolloutView struct {
	documentHead
	Rollout    *policystore.Rollout // nil if there was none
	State      string               // in a word
	Words      template.HTML
	Steps      []stepView
	Measures   []measureView
	Groups     []groupView
	Command    string
	HaveIt     int64 // clients that run the candidate
	Confidence string
}

// stepView is a step of a rollout.
type stepView struct {
	Number                int
	Who                   string
	Hold                  time.Duration
	MinSamples            int64
	Status                string // done, current, failed or ahead
	Base, Candidate       int64  // calls
	Current, Done, Failed bool
}

// groupView is what the clients on one revision reported in the current step.
type groupView struct {
	Name     string
	Revision int64
	rollout.Counters
	P95 time.Duration
}

func rolloutPage() *page {
	return documentPage("Rollout", page{path: "policies/{name}/rollout", file: "rollout", moving: true}, func(r *request, h documentHead) (any, error) {
		out := rolloutView{documentHead: h}
		var status api.RolloutStatus
		err := r.get(documentPath(h.Name, "/rollout"), nil, &status)
		if answered(err, http.StatusNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		return out, out.fill(status)
	})
}

func (v *rolloutView) fill(status api.RolloutStatus) error {
	o := &status.Rollout
	v.Rollout, v.State = o, string(o.State)
	v.Confidence = trim(o.Plan.Confidence*100, 4) + " %"
	v.HaveIt = v.Clients.running(o.Candidate)
	calls := map[[2]int64]rollout.Counters{} // by step and revision
	for _, e := range status.Evidence {
		var c rollout.Counters
		if err := json.Unmarshal(e.Counters, &c); err != nil {
			return err
		}
		calls[[2]int64{int64(e.Step), e.Revision}] = c
	}
	for i, s := range o.Plan.Steps {
		v.Steps = append(v.Steps, newStepView(o, i, s, calls))
	}
	base, candidate := calls[[2]int64{int64(o.Step), o.Base}], calls[[2]int64{int64(o.Step), o.Candidate}]
	v.Groups = []groupView{
		{"Base", o.Base, base, base.Latency.Quantile(0.95)}, {"Candidate", o.Candidate, candidate, candidate.Latency.Quantile(0.95)},
	}
	if status.Judgement != nil {
		v.Measures = lists.Map(status.Judgement.Measures, newMeasureView)
	}
	v.Words = v.words(status.Judgement)
	v.Command = commandLine([]string{"policy", "rollout", "show", v.Name})
	return nil
}

func newStepView(o *policystore.Rollout, i int, s rollout.Step, calls map[[2]int64]rollout.Counters) stepView {
	out := stepView{
		Number: i + 1, Who: selectedBy(s), Hold: s.Hold, MinSamples: s.MinSamples,
		Base: calls[[2]int64{int64(i), o.Base}].Calls, Candidate: calls[[2]int64{int64(i), o.Candidate}].Calls, Status: "ahead",
	}
	switch {
	case i < o.Step || o.State == policystore.Promoted:
		out.Status, out.Done = "done", true
	case i == o.Step && o.State.Ended():
		out.Status, out.Failed = string(o.State), true
	case i == o.Step:
		out.Status, out.Current = string(o.State), true
	}
	return out
}

// selectedBy says in words which clients a step selects.
func selectedBy(s rollout.Step) string {
	var parts []string
	if s.Share > 0 {
		parts = append(parts, percent(s.Share)+" of clients")
	}
	if len(s.Labels) > 0 {
		labels := lists.Map(slices.Sorted(maps.Keys(s.Labels)), func(name string) string { return name + "=" + s.Labels[name] })
		parts = append(parts, "clients with "+strings.Join(labels, " and "))
	}
	return strings.Join(parts, " and ")
}

// words says how the rollout stands, and why.
func (v *rolloutView) words(j *rollout.Judgement) template.HTML {
	o, esc := v.Rollout, template.HTMLEscapeString
	at := fmt.Sprintf("step %d of %d", o.Step+1, len(o.Plan.Steps))
	switch o.State {
	case policystore.Promoted:
		return template.HTML(fmt.Sprintf("Revision %d was promoted %s: every client gets it. Harm as large as the thresholds was excluded in each of %s.", o.Candidate, instant(o.Ended), plural(len(o.Plan.Steps), "step", "steps"))) //nolint:gosec // numbers
	case policystore.Reverted:
		return template.HTML(fmt.Sprintf("Revision %d was taken back at %s, %s: %s The content of revision %d is in force again.", o.Candidate, at, instant(o.Ended), esc(harm(j)), o.Base)) //nolint:gosec // escaped
	case policystore.Aborted:
		return template.HTML(fmt.Sprintf("The rollout of revision %d was aborted at %s, %s. The content of revision %d is in force again.", o.Candidate, at, instant(o.Ended), o.Base)) //nolint:gosec // numbers
	}
	who := selectedBy(o.Plan.Steps[min(o.Step, len(o.Plan.Steps)-1)])
	text := fmt.Sprintf("Step %d of %d: %s get revision %d since %s", o.Step+1, len(o.Plan.Steps), esc(who), o.Candidate, instant(o.StepStarted))
	if o.State == policystore.Paused {
		return template.HTML(fmt.Sprintf("Paused %s. %s. Clients keep what they have, and nothing is judged until somebody resumes it.", instant(o.PausedAt), text)) //nolint:gosec // escaped
	}
	return template.HTML(text+"; "+esc(v.waiting(j))) + v.until(j) //nolint:gosec // escaped
}

// waiting says what a running rollout waits for.
func (v *rolloutView) waiting(j *rollout.Judgement) string {
	if j == nil {
		return "not judged yet."
	}
	step := v.Rollout.Plan.Steps[v.Rollout.Step]
	base, candidate := &v.Groups[0], &v.Groups[1]
	switch j.Reason {
	case rollout.ReasonSamples:
		return lacking(step, base, candidate)
	case rollout.ReasonHold:
		return "no harm is shown, and the step goes on "
	case rollout.ReasonUndecided:
		return "harm is neither shown nor excluded yet: " + strings.Join(named(j, rollout.Undecided), ", ") + "."
	case rollout.ReasonHarmless:
		return "harm is excluded: the next step begins within seconds."
	case rollout.ReasonInvalid:
		return "it cannot be judged: the plan or the counters are impossible. Abort it."
	}
	return harm(j) + " It is taken back within seconds."
}

// until says how long a step lasts at least.
func (v *rolloutView) until(j *rollout.Judgement) template.HTML {
	if j == nil || j.Reason != rollout.ReasonHold {
		return ""
	}
	return "until " + instant(v.Rollout.StepStarted.Add(v.Rollout.Plan.Steps[v.Rollout.Step].Hold)) + " at least."
}

// lacking says which numbers are missing.
func lacking(step rollout.Step, base, candidate *groupView) string {
	switch {
	case candidate.Calls < step.MinSamples && base.Calls < step.MinSamples:
		return fmt.Sprintf("waiting for %s calls in each group, %s and %s so far.", number(step.MinSamples), number(base.Calls), number(candidate.Calls))
	case candidate.Calls < step.MinSamples:
		return fmt.Sprintf("waiting for %s calls under the new revision, %s so far.", number(step.MinSamples), number(candidate.Calls))
	case base.Calls < step.MinSamples:
		return fmt.Sprintf("waiting for %s calls under the old revision, %s so far.", number(step.MinSamples), number(base.Calls))
	case min(base.Spread.Clients, candidate.Spread.Clients) < 2:
		return "waiting for reports of at least two clients in each group."
	}
	return "waiting for latencies: at least one client in each group needs 20 measured calls."
}

// named lists the measures with a finding.
func named(j *rollout.Judgement, f rollout.Finding) (list []string) {
	for _, m := range j.Measures {
		if m.Finding == f {
			list = append(list, measureName(m.Name))
		}
	}
	return list
}

// harm says what a judgement found to be worse.
func harm(j *rollout.Judgement) string {
	if j == nil {
		return "it did harm."
	}
	for _, m := range j.Measures {
		if m.Name == j.Reason {
			v := newMeasureView(m)
			return fmt.Sprintf("%s: %s instead of %s. The difference is at least %s, and %s is harmful.", v.Title, v.Candidate, v.Base, v.Low, v.Threshold)
		}
	}
	return string(j.Reason) + "."
}

// measureView is a measure with the drawing of its interval.
type measureView struct {
	Title, Base, Candidate, Difference, Low, High, Threshold string
	Finding, Class                                           string
	Known                                                    bool
	X, Wide, Dot                                             float64 // of the interval
	CutLow, CutHigh                                          bool    // the interval is longer than the drawing
	Label                                                    string
}

// The drawing of an interval reaches from -3 to 4 times the threshold.
const (
	intervalWidth = 280
	intervalLow   = 3
	intervalSpan  = 7
)

func measureName(name rollout.Reason) string {
	switch name {
	case rollout.ReasonFailures:
		return "failed calls"
	case rollout.ReasonExtraAttempts:
		return "extra attempts per call"
	case rollout.ReasonLatency:
		return "95th percentile of latency"
	case rollout.ReasonOpenings:
		return "breaker openings per call"
	}
	return string(name)
}

func newMeasureView(m rollout.Measure) measureView {
	value, points := percent, " points"
	switch m.Name {
	case rollout.ReasonLatency:
		value, points = seconds, " %"
	case rollout.ReasonExtraAttempts, rollout.ReasonOpenings:
		value = func(f float64) string { return trim(f, 4) }
		if points = " %"; m.Name == rollout.ReasonOpenings {
			points = ""
		}
	}
	change := func(f float64) string {
		scaled := f * 100
		if points == "" {
			scaled = f
		}
		if scaled == 0 {
			return "0" + points
		}
		if math.Abs(scaled) >= 1000 {
			return map[bool]string{true: "far more", false: "far less"}[scaled > 0]
		}
		text := strings.ReplaceAll(fmt.Sprintf("%+.3g", scaled), "-", "−")
		if points == " points" && (text == "+1" || text == "−1") {
			return text + " point"
		}
		return text + points
	}
	v := measureView{
		Title: sentenceCase(measureName(m.Name)), Threshold: strings.TrimPrefix(change(m.Threshold), "+"), Known: m.Finding != rollout.Unknown, Finding: string(m.Finding),
		Class: map[rollout.Finding]string{rollout.Worse: "bad", rollout.Harmless: "good", rollout.Undecided: "warn"}[m.Finding],
	}
	if !v.Known {
		v.Finding = "too few calls yet" // a percentile needs 20 of one client
		return v
	}
	v.Base, v.Candidate, v.Difference, v.Low, v.High = value(m.Base), value(m.Candidate), change(m.Difference), change(m.Low), change(m.High)
	x := func(f float64) float64 {
		return intervalWidth * min(max(f/m.Threshold+intervalLow, 0), intervalSpan) / intervalSpan
	}
	v.X, v.Dot = x(m.Low), x(m.Difference)
	v.Wide = max(x(m.High)-v.X, 2)
	v.CutLow, v.CutHigh = m.Low/m.Threshold < -intervalLow, m.High/m.Threshold > intervalSpan-intervalLow
	v.Label = fmt.Sprintf("%s: %s, between %s and %s; harmful from %s", v.Title, v.Difference, v.Low, v.High, v.Threshold)
	return v
}

func sentenceCase(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// rolloutAction makes the changes that pause, resume and abort the rollout of a document.
func rolloutAction() *action {
	return onDocument("policies/{name}/rollout/{action}", func(r *request, d *policystore.Document) (*preview, error) {
		name, does := d.Name, r.PathValue("action")
		o := d.Rollout
		if o == nil || o.State.Ended() {
			return &preview{Title: "No rollout is running", Nothing: true, Text: []string{name + " has no rollout in progress."}}, nil
		}
		p := &preview{Button: sentenceCase(does) + " the rollout", Command: commandLine([]string{"policy", "rollout", does, name})}
		p.Title = sentenceCase(does) + " the rollout of " + name + "?"
		p.Fields = []field{{Name: "revision", Type: "hidden", Value: decimal(o.Candidate)}}
		switch does {
		case "pause":
			p.Text = []string{"Clients keep what they have. Until somebody resumes the rollout, it is not judged, and a harmful revision is not taken back automatically."}
		case "resume":
			p.Text = []string{fmt.Sprintf("The rollout goes on at step %d. The pause does not count as time of the step.", o.Step+1)}
		case "abort":
			totals, err := r.clientTotals(*d)
			if err != nil {
				return nil, err
			}
			p.Danger = true
			p.Text = []string{fmt.Sprintf("Revision %d is taken back from %s: the content of revision %d is published as revision %d, and every client gets it.", o.Candidate, plural(totals.running(o.Candidate), "client", "clients"), o.Base, d.Newest+1)}
			p.ExtraTemplate = "difference"
			if p.Extra, err = r.difference(name, o.Candidate, o.Base); err != nil {
				return nil, err
			}
		default:
			return nil, errNoPage
		}
		return p, nil
	}, func(r *request, name string) (string, error) {
		does := r.PathValue("action")
		done := map[string]string{"pause": "paused", "resume": "running again", "abort": "aborted"}[does]
		if done == "" {
			return "", errNoPage
		}
		err := r.change(client.Call{Method: http.MethodPost, Path: documentPath(name, "/rollout/"+does), Query: params.Of("revision", r.PostFormValue("revision"))}, nil)
		return "The rollout of " + name + " is " + done + ".", err
	})
}
