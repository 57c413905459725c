package observe_test

import (
	"errors"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

var (
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	getUser = policy.Key{Namespace: "user-service", Name: "GetUser"}
)

func at(d time.Duration) time.Time { return start.Add(d) }

func outcome(k classify.Kind, r policy.Reason) classify.Outcome {
	return classify.Outcome{Kind: k, Reason: r}
}

// hedged is a call that fails once, waits, hedges and succeeds.
func hedged() observe.Timeline {
	return observe.Timeline{
		Key: getUser, PolicyID: "rev-17", CallID: "0195", Start: start, End: at(912345 * time.Microsecond),
		Attempts: []observe.AttemptRecord{
			{
				Attempt: 1, Start: start, End: at(300125 * time.Microsecond), Err: errors.New("context deadline exceeded"),
				Outcome: outcome(classify.Retryable, policy.ReasonAttemptTimeout), BudgetReason: policy.ReasonNoBudget, BudgetAllowed: true,
			},
			{
				Attempt: 2, RetryIndex: 1, Start: at(308 * time.Millisecond), End: at(912 * time.Millisecond),
				Err: errors.New("context canceled"), Backoff: 7875 * time.Microsecond,
				Outcome: outcome(classify.Abort, policy.ReasonCanceledInternal), BudgetAllowed: true, Circuit: "closed",
			},
			{
				Attempt: 3, RetryIndex: 1, HedgeIndex: 1, Start: at(508 * time.Millisecond), End: at(912300 * time.Microsecond),
				Outcome: outcome(classify.Success, policy.ReasonSuccess), BudgetAllowed: true,
			},
			{
				Attempt: 4, RetryIndex: 1, HedgeIndex: 2, Start: at(708 * time.Millisecond), End: at(708 * time.Millisecond), Denied: true,
				Outcome: outcome(classify.Abort, policy.ReasonBudgetDenied), BudgetReason: policy.ReasonBudgetDenied,
			},
		},
		Reason: policy.ReasonSuccess,
	}
}

// exhausted is a call whose budget refuses a retry.
func exhausted() observe.Timeline {
	err := errors.New("dial tcp 10.0.0.7:443:\n\tconnect: connection refused\x1b[31m " +
		"after trying every address that the resolver gave us, in the order in which it gave them, one after the other")
	return observe.Timeline{
		Key: getUser, Start: start, End: at(1500 * time.Microsecond),
		Attempts: []observe.AttemptRecord{
			{Attempt: 1, Start: start, End: at(1400 * time.Microsecond), Err: err, Outcome: outcome(classify.Retryable, policy.ReasonError)},
			{
				Attempt: 2, RetryIndex: 1, Start: at(1450 * time.Microsecond), End: at(1450 * time.Microsecond), Denied: true,
				Outcome: outcome(classify.Abort, policy.ReasonBudgetDenied), BudgetReason: policy.ReasonBudgetDenied,
			},
		},
		FinalError: err, Reason: policy.ReasonBudgetDenied,
	}
}
