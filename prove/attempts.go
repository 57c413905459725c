package prove

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// attemptUnreachable: even if every attempt fails at once and every delay is the shortest, the work ends first.
func attemptUnreachable(s *subject) *answer {
	most := s.policy.Retry.MaxAttempts
	if most < 2 {
		return nil
	}
	a := &answer{message: fmt.Sprintf("%s: attempt %d can start %s", s.key, most, s.before(most))}
	n := amplify.Reachable(&s.policy.Retry, s.key.Surface(), s.within)
	if n >= most {
		return a
	}
	steps := []Step{}
	elapsed := time.Duration(0)
	for k := 1; k <= n; k++ {
		steps = append(steps, Step{Ask: AskNext, Attempt: k, At: Seconds(elapsed)})
		shortest, _ := decision.Bounds(&s.policy.Retry, k-1)
		elapsed += shortest
	}
	return a.breaks(s.bound, fmt.Sprintf("%s: attempt %d of %d can never start: even if every attempt fails at once, it is due %s after the first, and %s is %s",
		s.key, n+1, most, elapsed, s.bound, s.within)).with(s.example(steps...))
}

// before says when attempt n is due at the earliest.
func (s *subject) before(n int) string {
	due := time.Duration(0)
	for i := range n - 1 {
		shortest, _ := decision.Bounds(&s.policy.Retry, i)
		due = decision.Sum(due, shortest)
		if due == math.MaxInt64 {
			break
		}
	}
	if s.within <= 0 {
		return fmt.Sprintf("%s after the first", due)
	}
	return fmt.Sprintf("%s after the first, before %s of %s", due, s.bound, s.within)
}

// waits is the longest total of the delays, and the same if a server asks for the longest pushback every time. Both stop at
// policy.Unbounded.
func (s *subject) waits() (delays, pushed time.Duration) {
	r := &s.policy.Retry
	for i := 0; i < r.MaxAttempts-1 && pushed < policy.Unbounded; i++ {
		_, longest := decision.Bounds(r, i)
		delays = min(decision.Sum(delays, longest), policy.Unbounded)
		pushed = min(decision.Sum(pushed, max(longest, r.MaxPushback)), policy.Unbounded)
	}
	return delays, pushed
}

// running is how long all attempts take together at most, 0 if nothing bounds them: timeouts, those of hedges that are launched
// just before their predecessor ends, and waits for a place.
func (s *subject) running() time.Duration {
	r, hedges := &s.policy.Retry, 0
	if s.policy.Hedge.Enabled {
		hedges = s.policy.Hedge.MaxHedges
	}
	if r.TimeoutPerAttempt <= 0 || r.TimeoutPerAttempt >= policy.Unbounded/time.Duration(r.MaxAttempts*(hedges+2)) {
		return 0
	}
	each := r.TimeoutPerAttempt * time.Duration(1+hedges)
	if s.policy.Limit.Active() {
		each = decision.Sum(each, s.policy.Limit.MaxWait)
	}
	if each >= policy.Unbounded/time.Duration(r.MaxAttempts) {
		return 0
	}
	return each * time.Duration(r.MaxAttempts)
}

// Worst is the longest that the work takes, 0 if nothing bounds it.
func (s *subject) worst() time.Duration {
	_, pushed := s.waits()
	total := s.running()
	if total > 0 && pushed < policy.Unbounded && !s.postponed() {
		total += pushed
	} else {
		total = 0
	}
	if s.within > 0 && (total == 0 || s.within < total) {
		return s.within
	}
	return total
}

func worstCaseTime(s *subject) *answer {
	delays, pushed := s.waits()
	worst, running := s.worst(), s.running()
	text := "nothing bounds an attempt: only its caller's context ends it"
	switch {
	case worst > 0 && worst == s.within:
		text = fmt.Sprintf("at most %s, the %s", worst, s.bound)
	case worst > 0:
		text = fmt.Sprintf("at most %s of attempts and %s of delays, or %s in all with the longest pushback every time", running, delays, worst)
	case running > 0:
		text = fmt.Sprintf("at most %s of attempts, and delays without bound", running)
	}
	switch {
	case s.postponed():
		text += "; a breaker, a budget or a limit may postpone attempts without counting them"
	case running > 0 && worst == s.within && worst > 0:
		text += fmt.Sprintf("; without it %s of attempts and %s of delays", running, delays)
	case pushed < policy.Unbounded && running == 0 && s.policy.Retry.MaxAttempts > 1:
		text += fmt.Sprintf("; delays of at most %s", delays)
	}
	if s.key.Surface() == policy.SurfaceJob {
		text += "; waiting for a worker comes on top"
	}
	return &answer{message: s.key.String() + ": " + text}
}

func timeoutUnreachable(s *subject) *answer {
	timeout := s.policy.Retry.TimeoutPerAttempt
	if timeout <= 0 || s.within <= 0 {
		return nil
	}
	a := &answer{message: fmt.Sprintf("%s: timeout %s is below %s %s", s.key, timeout, s.bound, s.within)}
	if timeout < s.within || timeout == s.within && s.policy.Retry.MaxAttempts == 1 {
		return a
	}
	return a.breaks("retry.timeout", fmt.Sprintf("%s: an attempt never ends by its timeout of %s, or is not retried after it: %s of %s ends the work first",
		s.key, timeout, s.bound, s.within)).with(s.example(Step{Ask: AskTimeout, Attempt: 1, At: Seconds(s.within)}))
}

func unboundedRetry(s *subject) *answer {
	r := &s.policy.Retry
	if r.MaxAttempts < 2 {
		return nil
	}
	most := policy.JobLimits().Attempts.Max
	delays, pushed := s.waits()
	a := &answer{message: fmt.Sprintf("%s: at most %d attempts with delays of at most %s", s.key, r.MaxAttempts, delays)}
	if s.within > 0 {
		a.message += fmt.Sprintf(", all within %s", s.within)
		return a
	}
	last := Step{Ask: AskNext, Attempt: min(r.MaxAttempts-1, most-1)}
	switch {
	case r.MaxAttempts >= most:
		return a.breaks("retry.max_attempts", fmt.Sprintf("%s: %d attempts and no %s: in practice, work that cannot succeed is retried without end",
			s.key, r.MaxAttempts, s.bound)).with(s.example(last))
	case delays >= policy.Unbounded:
		last.Ask = AskBounds
		return a.breaks("retry.backoff_cap", fmt.Sprintf("%s: the delays grow to over 100 years in total: neither a cap nor %s bounds them", s.key, s.bound)).with(s.example(last))
	case pushed >= policy.Unbounded:
		last.Ask, last.At = AskPushed, Seconds(r.MaxPushback)
		return a.breaks("retry.max_pushback", fmt.Sprintf("%s: a server may ask for waits of over 100 years in total: neither max_pushback nor %s bounds them", s.key, s.bound)).with(s.example(last))
	}
	return a
}

func zeroDelay(s *subject) *answer {
	r := &s.policy.Retry
	if r.MaxAttempts < 2 {
		return nil
	}
	shortest, longest := decision.Bounds(r, 0)
	a := &answer{message: fmt.Sprintf("%s: the first retry waits %s to %s", s.key, shortest, longest)}
	if shortest == 0 && longest > 0 {
		a.message += "; a delay near 0 is as likely as any other"
	}
	if longest > 0 {
		return a
	}
	return a.breaks("retry.backoff", fmt.Sprintf("%s: %d retries follow their failures without any delay", s.key, r.MaxAttempts-1)).
		with(s.example(Step{Ask: AskBounds, Attempt: 1}, Step{Ask: AskBounds, Attempt: r.MaxAttempts - 1}))
}

func constantDelay(s *subject) *answer {
	r := &s.policy.Retry
	if r.MaxAttempts < 3 {
		return nil
	}
	shortest, first := decision.Bounds(r, 0)
	_, last := decision.Bounds(r, r.MaxAttempts-2)
	a := &answer{message: fmt.Sprintf("%s: the first retry waits %s to %s, the last one at most %s", s.key, shortest, first, last)}
	if shortest == 0 || shortest != first || first != last {
		return a
	}
	return a.breaks("retry.backoff", fmt.Sprintf("%s: each of %d retries waits %s in every client, so that those that fail together retry together", s.key, r.MaxAttempts-1, last)).
		with(s.example(Step{Ask: AskBounds, Attempt: 1}, Step{Ask: AskBounds, Attempt: r.MaxAttempts - 1}))
}

// outlasts: even with the longest delays, the last attempt is due before an outage of that length is over.
func (s *subject) outlasts(outage time.Duration) *answer {
	if s.postponed() {
		return &answer{message: s.key.String() + ": not judged: a breaker, a budget or a limit may postpone attempts without counting them"}
	}
	due, last := s.lastDue()
	a := &answer{message: fmt.Sprintf("%s: an outage of %s can be over when the last attempt is due, up to %s after the first", s.key, outage, due)}
	if s.policy.Circuit.Kind != "" || s.policy.Retry.Budget.Name != "" {
		a.message += ", unless its breaker or budget refuses it"
	}
	if due >= outage {
		return a
	}
	text := fmt.Sprintf("if every attempt fails immediately, the last one is due at most %s after the first", due)
	switch {
	case last == 1:
		text = "there is only one attempt"
	case s.within > 0 && due == s.within-1:
		text = fmt.Sprintf("the last attempt is due before the end of the work, %s of %s", s.bound, s.within)
	}
	at, steps := time.Duration(0), []Step{{Ask: AskLongest, Attempt: 1}}
	for k := 1; k < last; k++ {
		_, longest := decision.Bounds(&s.policy.Retry, k-1)
		if at = decision.Sum(at, longest); s.within > 0 && at >= s.within {
			break
		}
		steps = append(steps, Step{Ask: AskLongest, Attempt: k + 1, At: Seconds(at)})
	}
	return a.breaks("", fmt.Sprintf("%s: an outage of %s outlasts the retries: %s", s.key, outage, text)).with(s.example(steps[max(len(steps)-2, 0):]...))
}

// postponed reports whether a breaker, a budget or a limit may postpone attempts without counting them. A refused call ends instead.
func (s *subject) postponed() bool {
	p := s.policy
	return s.limited || s.key.Surface() != policy.SurfaceCall && (p.Circuit.Kind != "" || p.Retry.Budget.Name != "" || p.Limit.Active())
}

// lastDue returns the latest time after the first attempt at which the last one can be due if every attempt fails immediately, and
// its number. Where the longest delays would pass the end of the work, shorter ones reach the moment before it.
func (s *subject) lastDue() (due time.Duration, last int) {
	r, soonest := &s.policy.Retry, time.Duration(0)
	wait := time.Duration(0)
	if s.policy.Limit.Active() {
		wait = s.policy.Limit.MaxWait
	}
	for last = 1; last < r.MaxAttempts; last++ {
		shortest, longest := decision.Bounds(r, last-1)
		if soonest = decision.Sum(soonest, shortest); s.within > 0 && soonest >= s.within {
			break
		}
		if due = decision.Sum(due, longest, wait); s.within > 0 {
			due = min(due, s.within-1)
		}
	}
	return due, last
}

func loadFactor(s *subject) *answer {
	if s.key.Surface() != policy.SurfaceCall {
		return nil
	}
	load := amplify.Of(s.policy, s.within, s.budgets)
	a := &answer{message: fmt.Sprintf("%s: at most %s per call", s.key, count(load.Attempts, "attempt", "attempts"))}
	if load.Budgeted < float64(load.Attempts) {
		a.message += fmt.Sprintf(", %.4g in the long run over all calls that share its budgets", load.Budgeted)
	}
	most := policy.CallLimits().Attempts.Max
	if load.Budgeted <= float64(most) || s.bounds(s.policy.Retry.Budget) || s.bounds(s.policy.Hedge.Budget) {
		return a
	}
	steps := []Step{{Ask: AskNext, Attempt: s.policy.Retry.MaxAttempts - 1}, {Ask: AskTrigger}}
	if s.policy.Retry.MaxAttempts < 2 {
		steps = steps[1:]
	}
	return a.breaks("hedge.max_hedges", fmt.Sprintf("%s: a call can become %d attempts, more than the %d that calls may make without hedges, and no budget bounds them",
		s.key, load.Attempts, most)).with(s.example(steps...))
}

func namesFromCode(s *subject) *answer {
	var names []string
	r, h := &s.policy.Retry, &s.policy.Hedge
	if c := r.ClassifierName; c != "" && c != "default" {
		names = append(names, "classifier "+c)
	}
	for _, c := range append(append([]policy.Class{}, r.RetryOn...), r.AbortOn...) {
		if !matched(c) {
			names = append(names, "class "+string(c))
		}
	}
	if h.Enabled && !builtinTrigger(h.TriggerName) {
		names = append(names, "trigger "+h.TriggerName)
	}
	for _, name := range s.asks() {
		if _, known := s.budgets[name]; !known {
			names = append(names, "budget "+name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &answer{message: fmt.Sprintf("%s: code must register %s", s.key, strings.Join(names, ", "))}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
