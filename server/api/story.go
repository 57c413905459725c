package api

import (
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
)

// Story is what is known of a job: from the audit log or, if that has nothing of it, from the job's own history.
type Story struct {
	ID       string      `json:"id"`
	Source   string      `json:"source" enum:"log,history"`
	Key      string      `json:"key,omitempty" doc:"The key of the policy."`
	PolicyID string      `json:"policy_id,omitempty"`
	Revision string      `json:"policy_revision,omitempty" doc:"The hash of the policies in force at the last decision."`
	TraceID  string      `json:"trace_id,omitempty"`
	Result   string      `json:"result,omitempty" doc:"done, stop or unfinished."`
	Reason   string      `json:"reason,omitempty"`
	Attempts int         `json:"attempts"`
	Waiting  float64     `json:"waiting_seconds"`
	Steps    []StoryStep `json:"steps" nullable:"false"`
}

// StoryStep is an event in a story.
type StoryStep struct {
	Time     time.Time  `json:"time"`
	EventID  string     `json:"event_id,omitempty"`
	Type     audit.Type `json:"type,omitempty"`
	Attempt  int        `json:"attempt,omitempty"`
	Maximum  int        `json:"max_attempts,omitempty" doc:"The maximum number of attempts in effect."`
	Outcome  string     `json:"outcome,omitempty"`
	Class    string     `json:"class,omitempty"`
	Why      string     `json:"outcome_reason,omitempty"`
	Error    string     `json:"error,omitempty"`
	Decision string     `json:"decision,omitempty" doc:"retry, stop or done."`
	Reason   string     `json:"reason,omitempty"`
	Wait     float64    `json:"wait_seconds,omitempty"`
	Range    *Range     `json:"wait_range,omitempty" doc:"The shortest and the longest wait that the policy allows here, whatever the seed."`
	Revision string     `json:"policy_revision,omitempty"`
	Rule     string     `json:"matched_rule,omitempty" doc:"The rule that classified the outcome."`
	Facts    *Facts     `json:"facts,omitempty" doc:"The facts from which the outcome was judged."`
	Fields   []Field    `json:"fields,omitempty" doc:"The fields of the policy that decided."`
	Detail   string     `json:"detail,omitempty"`
	Now      *Now       `json:"now,omitempty" doc:"What the current policy decides for the same outcome in the same state."`
}

// Range bounds a wait.
type Range struct {
	Lowest  float64 `json:"lowest_seconds"`
	Highest float64 `json:"highest_seconds"`
}

// Facts is what an outcome was judged from.
type Facts struct {
	Failed   bool     `json:"failed"`
	Ended    string   `json:"ended,omitempty" doc:"Why the work ended without another attempt."`
	TimedOut bool     `json:"timed_out,omitempty"`
	Mark     string   `json:"mark,omitempty"`
	Pushback float64  `json:"pushback_seconds,omitempty"`
	Classes  []string `json:"classes,omitempty"`
}

// Field is a field of a policy.
type Field struct {
	Path  string `json:"path"`
	Value string `json:"value,omitempty" doc:"Absent if the log does not hold the policy."`
}

// Now is what the current policy decides.
type Now struct {
	Revision string  `json:"policy_revision"`
	Decision string  `json:"decision"`
	Reason   string  `json:"reason"`
	Wait     float64 `json:"wait_seconds,omitempty"`
	Range    *Range  `json:"wait_range,omitempty"`
	Same     bool    `json:"same"`
}

func seconds(s audit.Seconds) float64 { return time.Duration(s).Seconds() }

func newRange(r *audit.Range) *Range {
	if r == nil {
		return nil
	}
	return &Range{seconds(r.Lowest), seconds(r.Highest)}
}

// NewStory describes what the audit log has of a job.
func NewStory(s *audit.Story) Story {
	out := Story{
		ID: s.WorkID, Source: "log", Key: s.Key, PolicyID: s.PolicyID, Revision: s.Revision, TraceID: s.TraceID, Result: s.Result, Reason: s.Reason,
		Attempts: s.Attempts, Waiting: seconds(s.Waiting), Steps: make([]StoryStep, len(s.Steps)),
	}
	for i := range s.Steps {
		from, to := &s.Steps[i], &out.Steps[i]
		*to = StoryStep{
			Time: from.Time, EventID: from.EventID, Type: from.Type, Attempt: from.Attempt, Maximum: from.Maximum, Outcome: from.Outcome, Class: from.Class,
			Why: from.Why, Error: from.Error, Decision: from.Decision, Reason: from.Reason, Wait: seconds(from.Wait), Range: newRange(from.Range),
			Revision: from.Revision, Rule: from.Rule, Detail: from.Detail,
		}
		for _, f := range from.Fields {
			to.Fields = append(to.Fields, Field{f.Path, f.Value})
		}
		if f := from.Facts; f != nil {
			to.Facts = &Facts{f.Failed, f.Ended, f.TimedOut, f.Mark, seconds(f.Pushback), f.Classes}
		}
		if n := from.Now; n != nil {
			to.Now = &Now{n.Revision, n.Decision, n.Reason, seconds(n.Wait), newRange(n.Range), n.Same}
		}
	}
	return out
}

// NewHistoryStory describes what a job's own history has. It knows no policy and no facts.
func NewHistoryStory(r *job.Record, history []job.Attempt) Story {
	s := Story{ID: r.ID, Source: "history", Result: "unfinished", Reason: string(r.Reason), Attempts: r.Attempts(), Steps: []StoryStep{}}
	switch r.State {
	case job.Completed:
		s.Result = "done"
	case job.Dead, job.Cancelled:
		s.Result = "stop"
	case job.Waiting, job.Scheduled, job.Ready, job.Running:
	}
	ran := 0 // in all runs of the job: the record counts those since an operator's last retry
	for i := range history {
		a := &history[i]
		switch a.Outcome {
		case job.AttemptCompleted, job.AttemptFailed, job.AttemptLost, job.AttemptCancelled:
			ran++
		case job.AttemptInterrupted, job.AttemptRefused, job.AttemptSnoozed:
		}
		step := StoryStep{
			Time: a.Finished, Attempt: a.Number, Outcome: string(a.Outcome), Reason: string(a.Reason), Error: a.Error, Wait: a.Delay.Seconds(), Detail: a.Worker,
		}
		switch a.Kind {
		case job.KindRetry:
			step.Decision = "retry"
		case job.KindComplete:
			step.Decision = "done"
		case job.KindDead, job.KindBury, job.KindCancel:
			step.Decision = "stop"
		case job.KindRelease, job.KindSnooze, job.KindRefuse:
		}
		s.Waiting += a.Delay.Seconds()
		s.Steps = append(s.Steps, step)
	}
	s.Attempts = max(s.Attempts, ran)
	return s
}
