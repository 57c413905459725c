package ui

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// explanation is what the audit log has of a job.
type explanation struct {
	Trail     []api.StoryStep // every event
	Document  string          // whose current revision is compared; empty for none
	Documents []scaleLink     // to choose another
	decisions []api.StoryStep
}

// readExplanation reads the story of a job, compared with the current revision of a document: of the one that the query names,
// or of the only one that there is.
func readExplanation(r *request, v *jobView) (e explanation, err error) {
	var documents api.Documents
	if err := r.get("/v1/documents", url.Values{"limit": {"20"}}, &documents); err != nil && !refused(err) {
		return e, err
	}
	e.Document = r.query.Get("document")
	if e.Document == "" && len(documents.Documents) == 1 {
		e.Document = documents.Documents[0].Name
	}
	for _, d := range documents.Documents {
		e.Documents = append(e.Documents, scaleLink{d.Name, v.With("document", d.Name) + "#attempts", d.Name == e.Document})
	}
	query := url.Values{}
	if e.Document != "" {
		query.Set("document", e.Document)
	}
	var story api.Story
	if err := r.get("/v1/jobs/"+url.PathEscape(v.Job.ID)+"/explain", query, &story); err != nil {
		if refused(err) {
			return e, nil
		}
		return e, err
	}
	if story.Source != "log" {
		return e, nil
	}
	e.Trail = story.Steps
	for _, s := range story.Steps {
		if s.Decision == "" {
			continue
		}
		if e.Document == "" {
			s.Now = nil // the built-in policy is nobody's
		}
		e.decisions = append(e.decisions, s)
	}
	return e, nil
}

// refused reports whether a caller may not read something, or a server does not have it.
func refused(err error) bool { return answered(err, http.StatusForbidden, http.StatusNotFound) }

// take returns the decision after an attempt of the history, whose rows are asked for from the oldest to the newest.
func (e *explanation) take(a *api.Attempt) *api.StoryStep {
	if a.Outcome != job.AttemptFailed && a.Outcome != job.AttemptCompleted {
		return nil
	}
	for i := range e.decisions {
		if d := &e.decisions[i]; d.Attempt == a.Attempt {
			e.decisions = e.decisions[i+1:]
			return d
		}
	}
	return nil
}

// factsText says what an outcome was judged from.
func factsText(f *api.Facts) string {
	if f == nil {
		return ""
	}
	var parts []string
	add := func(is bool, text string) {
		if is {
			parts = append(parts, text)
		}
	}
	add(f.Failed, "it returned an error")
	add(!f.Failed, "it returned no error")
	add(f.TimedOut, "it exceeded its timeout")
	add(f.Ended != "", "the work had to end: "+f.Ended)
	add(f.Mark != "", "the error is marked "+f.Mark)
	add(f.Pushback > 0, "the other side asked to wait "+seconds(f.Pushback))
	add(len(f.Classes) > 0, "its classes are "+strings.Join(f.Classes, ", "))
	return strings.Join(parts, "; ")
}

// boundsText says which waits a policy allows.
func boundsText(r *api.Range) string {
	switch {
	case r == nil:
		return ""
	case r.Lowest == r.Highest:
		return "exactly " + seconds(r.Lowest)
	}
	return seconds(r.Lowest) + " to " + seconds(r.Highest)
}

// nowText says what the current revision decides.
func nowText(n *api.Now) string {
	if n == nil {
		return ""
	}
	if n.Same {
		return "the same"
	}
	text := n.Decision + " (" + n.Reason + ")"
	if n.Wait > 0 {
		text += " after " + seconds(n.Wait)
	}
	if bounds := boundsText(n.Range); bounds != "" {
		text += ", of " + bounds
	}
	return text
}

// eventText says what an event of the trail is about.
func eventText(s *api.StoryStep) string {
	var outcome, decision, wait, fault string
	if s.Outcome != "" {
		outcome = s.Outcome + reasonText(s.Why)
	}
	if s.Decision != "" {
		decision = "→ " + s.Decision + reasonText(s.Reason)
	}
	if s.Wait > 0 {
		wait = "after " + seconds(s.Wait)
	}
	if s.Type == audit.RetryExhausted || s.Type == audit.CallStopped {
		fault = s.Error
	}
	return joined(outcome, decision, wait, s.Detail, fault)
}
