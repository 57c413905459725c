package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

// jobStory says in words how it stands with a job, and what to do next.
type jobStory struct {
	What   string // "This job is dead because max_attempts attempts were made."
	Advice string
	Alarm  bool
	At     time.Time // when it runs, as far as is known
}

// meanings are the sentences that document reasons.
var meanings = sync.OnceValue(func() map[policy.Reason]string {
	all := map[policy.Reason]string{}
	for _, r := range policy.Reasons() {
		all[r.Reason] = r.Meaning
	}
	return all
})

func meaning(r policy.Reason) string { return meanings()[r] }

// because writes a reason as the end of a sentence.
func because(r policy.Reason) string {
	text := strings.TrimSuffix(meaning(r), ".")
	if text == "" {
		return "of " + string(r)
	}
	if strings.HasPrefix(text, "The ") || strings.HasPrefix(text, "An ") || strings.HasPrefix(text, "Another ") {
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return text
}

// jobFacts are what the page knows beside the job itself.
type jobFacts struct {
	like     int
	likeText string
	paused   *job.QueueState
	workers  int // that claim the job's type from its queue
	flow     *jobFlow
	waits    *jobWaits
}

// readJobFacts reads what explains a job's state.
func readJobFacts(r *request, j *api.Job) (f jobFacts, err error) {
	switch j.State {
	case job.Dead:
		if j.Cause == "" {
			return f, nil
		}
		f.likeText = term("cause", j.Cause)
		var causes api.Causes
		err := r.ask("/v1/dlq/causes", api.CauseQuery{Filter: api.JobFilter{Filter: f.likeText}}, &causes)
		if answered(err, http.StatusNotFound) {
			return f, nil // this store does not count causes
		}
		for _, g := range causes.Groups {
			f.like += g.Count
		}
		return f, err
	case job.Ready, job.Scheduled:
		var switches api.Queues
		var workers api.Workers
		if err := r.get("/v1/queues", nil, &switches); err != nil {
			return f, err
		}
		if err := r.get("/v1/workers", nil, &workers); err != nil {
			return f, err
		}
		if i := slices.IndexFunc(switches.Queues, func(q job.QueueState) bool { return q.Queue == j.Queue && q.Holds(time.Now()) }); i >= 0 {
			f.paused = &switches.Queues[i]
		}
		for _, w := range workers.Workers {
			if w.Takes(job.Request{Queue: j.Queue, Type: j.Type}) {
				f.workers++
			}
		}
	case job.Waiting, job.Running, job.Completed, job.Cancelled:
	}
	return f, nil
}

// story says how it stands with a job.
func (f *jobFacts) story(j *api.Job) jobStory {
	switch j.State {
	case job.Dead:
		why := because(j.Reason)
		switch j.Reason {
		case policy.ReasonAttemptsExhausted:
			why = "its " + plural(j.Attempts, "attempt is", "attempts are") + " used up"
		case policy.ReasonNonRetryable:
			why = "its last error must not be retried"
		}
		s := jobStory{What: "This job is dead because " + why + ".", Advice: "Mend the cause, and then retry the job.", Alarm: true}
		if f.like > 1 {
			s.Advice = fmt.Sprintf("Mend the cause. Then retry this job, or redrive all %s that died of the same cause.", plural(f.like, "job", "jobs"))
		}
		return s
	case job.Waiting:
		return f.held(j)
	case job.Scheduled:
		return f.waiting(j, jobStory{What: "This job is scheduled.", At: j.RunAt})
	case job.Ready:
		return f.waiting(j, jobStory{What: "This job is due."})
	case job.Running:
		s := jobStory{What: "This job is running on " + j.Worker + ".", Advice: "If the worker does not extend its lease, the attempt is lost, and another worker takes the job."}
		if !j.CancelRequestedAt.IsZero() {
			s.What, s.Advice = "This job is running on "+j.Worker+" and is asked to stop.", "It ends as cancelled when its handler returns, unless the handler completes."
		}
		return s
	case job.Cancelled:
		return jobStory{What: "This job was cancelled: " + because(j.Reason) + ".", Advice: "Retry it to run it after all."}
	case job.Completed:
	}
	s := jobStory{What: "This job is completed."}
	if j.Attempts > 1 {
		s.What = fmt.Sprintf("This job is completed, by attempt %d.", j.Attempts)
	}
	if !j.CancelRequestedAt.IsZero() {
		s.Advice = "Its cancellation was requested, but its handler completed first."
	}
	return s
}

// held says what a waiting job waits for.
func (f *jobFacts) held(j *api.Job) jobStory {
	switch {
	case j.WaitsFor == job.WaitsForNeeds && (f.flow == nil || f.flow.Hidden || f.flow.Unmet == 0):
		return jobStory{What: "This job waits for other jobs of its flow."}
	case j.WaitsFor == job.WaitsForNeeds:
		s := jobStory{What: "This job waits for " + plural(f.flow.Unmet, "job", "jobs") + " of its flow, shown below."}
		if f.flow.MoreNeeds {
			s.What = "This job waits for jobs of its flow, some of which are shown below."
		}
		for _, n := range f.flow.Needs {
			if n.State == job.Dead || n.State == job.Cancelled {
				s.Advice, s.Alarm = n.Node+" is "+string(n.State)+": this job runs once it has been retried and has completed.", true
			}
		}
		return s
	case f.waits == nil:
		return jobStory{What: "This job waits for " + j.WaitsFor + "."}
	}
	s := jobStory{What: "This job waits for " + f.waits.Limit.LimitName().String() + ": " + f.waits.Limit.Bound + "."}
	s.Advice = "It gets a place when an earlier job of the same key gives one back, and costs nothing until then."
	if f.waits.Limit.InForce != nil && f.waits.Limit.InForce.Rate != nil {
		s.Advice = "It gets a place when the rate allows the next start or, with a bound of jobs at a time, when an earlier job gives its place back."
	}
	return s
}

// waiting completes the story of a job that waits.
func (f *jobFacts) waiting(j *api.Job, s jobStory) jobStory {
	switch {
	case j.Refusals > 0:
		s.What = fmt.Sprintf("This job waits: it was refused %s because %s.", plural(j.Refusals, "time", "times"), because(j.RefusedReason))
		s.Advice = "No attempt is used up by refusals. It runs once the budget or breaker admits it."
	case j.Failures > 0:
		s.What = fmt.Sprintf("This job waits for attempt %d: the last one failed because %s.", j.Failures+1, because(j.Reason))
	}
	switch {
	case f.paused != nil:
		s.Advice, s.Alarm = "Its queue is paused"+reasonText(f.paused.Reason)+". Resume the queue to let it run.", true
	case f.workers == 0:
		s.Advice, s.Alarm = "No live worker takes "+j.Type+" from the queue "+j.Queue+". Start one on the same store.", true
	case s.Advice == "" && j.State == job.Ready:
		s.Advice = plural(f.workers, "live worker takes", "live workers take") + " such jobs: it runs as soon as one of them has a free slot."
	}
	return s
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// followed says what was decided after an attempt.
func followed(j *api.Job, a *api.Attempt, last bool) string {
	delay := ""
	if a.Delay > 0 {
		delay = " after " + seconds(a.Delay)
	}
	switch {
	case a.Outcome == job.AttemptCompleted:
		return "The job is completed."
	case a.Outcome == job.AttemptCancelled:
		return "The job is cancelled."
	case a.Outcome == job.AttemptRefused:
		return fmt.Sprintf("It was refused %s, which uses up no attempt.", plural(a.Count, "time", "times"))
	case a.Outcome == job.AttemptSnoozed:
		return "The handler asked to run again" + delay + ". No attempt is used up."
	case a.Outcome == job.AttemptInterrupted:
		return "The worker shut down. The job is due again, and no attempt is used up."
	case a.Kind == job.KindDead || last && j.State == job.Dead:
		return "No attempt follows: the job is dead."
	case a.Outcome == job.AttemptLost:
		return "The attempt counts as failed, and the job is due again."
	case a.Kind == job.KindRetry:
		return "The policy allows another attempt" + delay + "."
	}
	return ""
}
