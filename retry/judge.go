package retry

import (
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// judgement is the outcome of an attempt or group and how it was derived.
type judgement struct {
	outcome classify.Outcome
	rule    decision.Rule // "" if nothing was judged
	facts   decision.Facts
}

// notJudged returns the judgement of an attempt or call that was refused, cancelled or interrupted by a panic.
func notJudged(reason policy.Reason) judgement {
	return judgement{outcome: classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: reason}}
}

// succeeded is the judgement of an operation that returned no error, under a policy without a classifier. It is read-only.
var succeeded = judgement{outcome: decision.Succeeded(), rule: decision.RuleSuccess}

// judge classifies an attempt's result into j.
func (r *run) judge(l *launch, value any, err error, j *judgement) {
	f := &j.facts
	f.Failed = err != nil
	if r.plan.classifier != nil {
		o := r.classify(value, err)
		f.Classified = &o
	}
	if err != nil || f.Classified.Kind != classify.Success {
		f.Ended = r.endReason()
		f.TimedOut = r.plan.policy.Retry.TimeoutPerAttempt > 0 && l.ctx.timedOut()
	}
	if err != nil {
		f.Mark, f.Pushback = classify.MarkOf(err)
		if r.plan.byClass || r.recorded() {
			f.Classes = r.e.vocabulary.Load().families.Of(err)
		}
	}
	j.outcome, j.rule = decision.Judge(&r.plan.policy.Retry, *f)
	if r.panicReason != "" && j.outcome.Kind != classify.Success {
		*j = notJudged(r.panicReason)
	}
}

// classify asks the policy's classifier.
func (r *run) classify(value any, err error) (o classify.Outcome) {
	if r.e.options.RecoverPanics {
		defer r.guard("classifier", policy.ReasonPanicInClassifier, func() {
			o = classify.Outcome{Kind: classify.Abort, Category: classify.CategorySystem, Reason: policy.ReasonPanicInClassifier}
		})
	}
	return r.plan.classifier.Classify(value, err)
}

// conclude ends an attempt that was judged: it releases what the attempt held and records it.
func (r *run) conclude(l *launch, j *judgement, err error) {
	if r.plan.hedge.digest != nil && j.outcome.Kind == classify.Success {
		r.plan.hedge.digest.Add(r.e.elapsed() - l.began)
	}
	l.settled = true
	if l.watch != nil || l.hasTicket || l.place.limiter != nil || l.grant.release != nil {
		l.place.result = latencyOf(j.outcome)
		r.free(l, resultOf(j.outcome))
	}
	l.ctx.finish()
	if j.outcome.Kind != classify.Success {
		r.last = err
	}
	if r.recorded() {
		r.rec.ended(r, l, j, err)
	}
}

// resultOf returns what an outcome means to a breaker.
func resultOf(o classify.Outcome) circuit.Result {
	switch {
	case o.Kind == classify.Abort:
		return circuit.Ignored
	case o.Kind == classify.Success, o.Category == classify.CategoryBusiness:
		return circuit.Success
	}
	return circuit.Failure
}
