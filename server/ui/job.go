package ui

import (
	"net/url"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// jobView is the page of a job.
type jobView struct {
	Job   api.Job
	Story jobStory
	Axis  axis
	// Attempts are the rows of the history, newest first; Older were left out.
	Attempts  []attemptView
	Older     int
	Explained explanation
	Like      int    // dead jobs with the same cause, with this one
	LikeText  string // the filter that selects them

	Flow  *jobFlow  // nil for a job without one
	Waits *jobWaits // for a limit

	ShowPayload, ShowSecrets, MaySecrets bool
	ShowOutputs                          bool // of its needs
	Scales                               []scaleLink
	self                                 url.Values // the page's query
	ui                                   *UI
}

// Title names the page.
func (v *jobView) Title() string { return v.Job.Type + " " + v.Job.ID }

// With returns the address of the page with a parameter changed.
func (v *jobView) With(name, value string) string {
	pairs := []string{name, value}
	for _, other := range []string{"scale", "payload", "secrets", "outputs", "document"} {
		if other != name {
			pairs = append(pairs, other, v.self.Get(other))
		}
	}
	return v.ui.href("jobs/"+v.Job.ID, pairs...)
}

// maxAttempts bounds the rows that the page shows.
const maxAttempts = 200

func loadJob(r *request) (any, error) {
	v := &jobView{self: r.query, ui: r.ui, ShowPayload: r.query.Get("payload") == "show"}
	v.MaySecrets = can(view{Who: r.who}, policystore.ScopeOperate)
	v.ShowSecrets = v.ShowPayload && v.MaySecrets && r.query.Get("secrets") == "show"
	query := url.Values{}
	if v.ShowSecrets {
		query.Set("secrets", "true")
	}
	if err := r.get("/v1/jobs/"+url.PathEscape(r.PathValue("id")), query, &v.Job); err != nil {
		return nil, err
	}
	v.ShowOutputs = r.query.Get("outputs") == "show"
	var err error
	if v.Flow, err = readJobFlow(r, &v.Job, v.ShowOutputs); err != nil {
		return nil, err
	}
	if v.Waits, err = readJobWaits(r, &v.Job); err != nil {
		return nil, err
	}
	facts, err := readJobFacts(r, &v.Job)
	if err != nil {
		return nil, err
	}
	facts.flow, facts.waits = v.Flow, v.Waits
	v.Like, v.LikeText = facts.like, facts.likeText
	v.Story = facts.story(&v.Job)
	history := v.Job.History
	if v.Older = max(0, len(history)-maxAttempts); v.Older > 0 {
		history = history[v.Older:]
	}
	scale := parseScale(r.query.Get("scale"))
	v.Axis = newAxis(&v.Job, history, scale)
	v.Scales = v.scales(scale)
	if v.Explained, err = readExplanation(r, v); err != nil {
		return nil, err
	}
	v.Attempts = attemptViews(&v.Job, history, &v.Explained)
	return v, nil
}

// scaleLink chooses a scale of the time axis.
type scaleLink struct {
	Name, Href string
	Current    bool
}

func (v *jobView) scales(current scale) (list []scaleLink) {
	for _, s := range []scale{scaleEven, 1, 4, 16, 64} {
		list = append(list, scaleLink{s.name(), v.With("scale", s.text()), s == current})
	}
	return list
}

// attemptView is a row of the history with what followed.
type attemptView struct {
	Row      api.Attempt
	Took     float64 // seconds
	Waited   float64 // until the next row or, for the last, now planned; in seconds
	Next     time.Time
	Meaning  string         // of the reason
	Then     string         // what was decided, in a sentence
	Decision *api.StoryStep // from the audit log; nil if it has none
	Again    bool           // the first after an operator retried the job: attempts count from 1 again
}

// attemptViews returns the rows of a history, newest first.
func attemptViews(j *api.Job, history []api.Attempt, e *explanation) []attemptView {
	list := make([]attemptView, len(history))
	for i, a := range history {
		v := attemptView{Row: a, Took: max(0, ended(history, i).Sub(a.Started).Seconds()), Meaning: meaning(a.Reason), Decision: e.take(&a)}
		v.Again = i > 0 && a.Attempt < history[i-1].Attempt
		last := i == len(history)-1
		switch {
		case !last:
			v.Next = history[i+1].Started
		case j.State == job.Running:
			v.Next = j.ClaimedAt
		case j.State == job.Scheduled, j.State == job.Ready:
			v.Next = j.RunAt
		}
		if !v.Next.IsZero() {
			v.Waited = max(0, v.Next.Sub(ended(history, i)).Seconds())
		}
		v.Then = followed(j, &v.Row, last)
		list[len(list)-1-i] = v
	}
	return list
}

// ended is when the row of a history ended. Refusals in a row are written with the attempt that follows, and end where it begins.
func ended(history []api.Attempt, i int) time.Time {
	if history[i].Outcome == job.AttemptRefused && i+1 < len(history) {
		return history[i+1].Started
	}
	return history[i].Finished
}
