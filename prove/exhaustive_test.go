package prove

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// pick returns one of its arguments.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// randomDocument writes a document with one call, job or step whose parameters are small enough to try everything.
func randomDocument(r *rand.Rand) string {
	kind := pick(r, "call", "call", "call", "job", "step")
	fields := []string{fmt.Sprintf("max_attempts: %d", 1+r.IntN(4)), "jitter: " + pick(r, "none", "none", "full", "equal", "proportional", "decorrelated")}
	lowest := 1
	if kind == "step" {
		lowest = 0
	}
	fields = append(fields, fmt.Sprintf("backoff: %dms", lowest+r.IntN(6)), fmt.Sprintf("backoff_multiplier: %d", 1+r.IntN(3)))
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("backoff_cap: %dms", 6+r.IntN(8)))
	} else if kind == "step" {
		fields = append(fields, "backoff_cap: 0")
	}
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("timeout: %dms", 1+r.IntN(24)))
	}
	if kind != "step" && r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("overall_timeout: %dms", 1+r.IntN(30)))
	}
	fields = append(fields, fmt.Sprintf("max_pushback: %dms", 1+r.IntN(20)))
	if r.IntN(2) == 0 {
		fields = append(fields, "retry_on: ["+pick(r, "timeout", "http_503, http_5xx", "http_5xx", "http_503, network", "http_410, http_503")+"]")
	}
	if r.IntN(4) == 0 {
		fields = append(fields, "classifier: http")
	}
	if r.IntN(3) == 0 {
		fields = append(fields, "abort_on: ["+pick(r, "dns", "http_501", "http_502, http_4xx, http_404", "eof")+"]")
	}
	budgets := ""
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("budget: {name: b, cost: %d}", 1+r.IntN(3)))
		budgets = "budgets:\n  b: " + pick(r, "{kind: unlimited}", fmt.Sprintf("{kind: retry_ratio, ratio: 0.5, burst: %d}", 1+r.IntN(3)),
			fmt.Sprintf("{kind: token_bucket, capacity: %d, refill_per_second: %d}", 1+r.IntN(5), pick(r, 1, 100, 1000))) + "\n"
	}
	retry := "retry: {" + strings.Join(fields, ", ") + "}"
	switch kind {
	case "job":
		return "version: 1\n" + budgets + "jobs:\n  j: {" + retry + randomCircuit(r) + fmt.Sprintf("}\nprove: {outages: [{path: jobs.j, lasts: %dms}]}\n", 1+r.IntN(40))
	case "step":
		loop := pick(r, "", fmt.Sprintf("loop: {transaction_timeout: %dms}, ", 1+r.IntN(30)))
		return "version: 1\n" + budgets + "consumers:\n  c: {" + loop + "steps: {process: {" + retry + "}}}\n"
	}
	outage := pick(r, "", fmt.Sprintf("prove: {outages: [{path: policies.a.B, lasts: %dms}]}\n", 1+r.IntN(40)))
	return "version: 1\n" + budgets + "policies:\n  a.B: {" + retry + randomHedge(r) + randomCircuit(r) + randomLimit(r) + "}\n" + outage
}

func randomHedge(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return ""
	}
	load := pick(r, "", ", max_extra_load: 1")
	return fmt.Sprintf(", hedge: {enabled: true, max_hedges: %d, delay: %dms, trigger: %s%s}", 1+r.IntN(2), 10+r.IntN(12), pick(r, "fixed", "fixed", "p95"), load)
}

func randomCircuit(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return ""
	}
	window := fmt.Sprintf("minimum_calls: %d, window: %dms, cooldown: %s", 1+r.IntN(6), 100+100*r.IntN(3), pick(r, "100ms", "1h", "2h"))
	return ", circuit: " + pick(r, "{kind: consecutive, failures: 3}", "{kind: rate, failure_rate: 0.5, "+window+"}",
		fmt.Sprintf("{kind: slow, slow_rate: 0.5, slow_after: %dms, %s}", 1+r.IntN(24), window))
}

func randomLimit(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return ""
	}
	return ", limit: " + pick(r, "{concurrency: 1}", "{concurrency: 2}",
		fmt.Sprintf("{rate: {count: 1, per: %dms, burst: %d}}", 5+15*r.IntN(6), 1+r.IntN(2)))
}

// execution is what a call can do under package decision, in every combination of three durations of an attempt (none, half and
// all of what its timeouts allow) with the shortest delay, the longest, and those of two seeds.
type execution struct {
	policy   *policy.Policy
	within   time.Duration
	seen     map[state]bool
	attempts int           // highest number of an attempt that started
	longest  time.Duration // until the end of the work
	waited   bool          // some delay was above 0
	varied   bool          // two delays differed
	delayed  time.Duration // the latest delay; below 0 before the first
	latest   time.Duration // when an attempt was due at the latest if all failed immediately
	timedOut bool          // some attempt ended by its own timeout, and was retried if the policy retries
}

type state struct {
	attempt int
	elapsed time.Duration
}

func execute(p *policy.Policy, within time.Duration) *execution {
	e := &execution{policy: p, within: within, seen: map[state]bool{}, delayed: -1}
	e.attempt(1, 0)
	e.refused(1, 0)
	return e
}

// refused makes attempts that fail immediately.
func (e *execution) refused(n int, at time.Duration) {
	e.latest = max(e.latest, at)
	for _, delay := range e.delays(n) {
		s := decision.State{Surface: e.policy.Key.Surface(), Attempt: n, Left: amplify.Left(e.within, at), LeftReason: policy.ReasonOverallTimeout, External: true, Delay: delay}
		if v := decision.Next(&e.policy.Retry, &s, &classify.Outcome{Kind: classify.Retryable}); v.Action == decision.Retry {
			e.refused(n+1, at+v.Delay)
		}
	}
}

func (e *execution) attempt(n int, at time.Duration) {
	if e.seen[state{n, at}] {
		return
	}
	e.seen[state{n, at}] = true
	e.attempts = max(e.attempts, n)
	for _, took := range e.durations(at) {
		end := at + took
		own := e.policy.Retry.TimeoutPerAttempt > 0 && took == e.policy.Retry.TimeoutPerAttempt
		e.timedOut = e.timedOut || own && (e.within <= 0 || end < e.within || e.policy.Retry.MaxAttempts == 1)
		e.longest = max(e.longest, end)
		if e.within > 0 && end >= e.within {
			continue // the work has ended
		}
		for _, delay := range e.delays(n) {
			e.waited = e.waited || delay > 0
			e.varied = e.varied || e.delayed >= 0 && delay != e.delayed
			e.delayed = delay
			s := decision.State{Surface: e.policy.Key.Surface(), Attempt: n, Left: decision.Unbounded, LeftReason: policy.ReasonOverallTimeout, External: true, Delay: delay}
			if e.within > 0 {
				s.Left = e.within - end
			}
			for _, pushback := range []time.Duration{0, e.policy.Retry.MaxPushback} {
				v := decision.Next(&e.policy.Retry, &s, &classify.Outcome{Kind: classify.Retryable, Pushback: pushback})
				if v.Action == decision.Retry {
					e.attempt(n+1, end+v.Delay)
				}
			}
		}
	}
}

// durations lists those of an attempt that starts at: none, one in between, and the longest that its timeouts allow.
func (e *execution) durations(at time.Duration) []time.Duration {
	end := e.policy.Retry.TimeoutPerAttempt
	if left := e.within - at; e.within > 0 && (end <= 0 || left < end) {
		end = left
	}
	if end <= 0 {
		return []time.Duration{0, time.Millisecond}
	}
	return []time.Duration{0, end / 2, end}
}

func (e *execution) delays(n int) []time.Duration {
	shortest, longest := decision.Bounds(&e.policy.Retry, n-1)
	list := []time.Duration{shortest}
	for seed := range uint64(2) {
		if d := decision.Delay(&e.policy.Retry, seed, n-1); d != shortest && d != longest {
			list = append(list, d)
		}
	}
	if longest != shortest {
		list = append(list, longest)
	}
	return list
}

// verdictOf returns the verdict of a rule, "" where it says nothing.
func verdictOf(list []Finding, code string) Verdict {
	verdict := Verdict("")
	for _, f := range list {
		if f.Code == code && verdict != Violated {
			verdict = f.Verdict
		}
	}
	return verdict
}

// contradiction compares the findings on a random document with what its executions show.
func contradiction(text string) error {
	d, err := policyfile.Parse("p", []byte(text), policyfile.Options{})
	if err != nil {
		return err
	}
	list, err := Document(d, nil)
	if err != nil {
		return err
	}
	for _, f := range list {
		if f.Counterexample != nil {
			if err := f.Counterexample.Replay(); err != nil {
				return err
			}
		}
	}
	p := &prover{document: d, budgets: d.Set.Budgets()}
	p.collect()
	for i := range p.subjects {
		s := &p.subjects[i]
		if len(p.subjects) > 1 && s.key.Name != "process" {
			continue
		}
		if err := s.contradicts(list, d.Outages()); err != nil {
			return err
		}
	}
	return nil
}

func (s *subject) contradicts(list []Finding, outages []policyfile.Outage) error {
	e := execute(s.policy, s.within)
	r := &s.policy.Retry
	expect := func(code string, violated bool) error {
		if got := verdictOf(list, code); got != "" && (got == Violated) != violated {
			return fmt.Errorf("%s: proved %q, executed: violated %t", code, got, violated)
		}
		return nil
	}
	load := amplify.Of(s.policy, s.within, nil)
	switch worst := s.worst(); {
	case worst > 0 && e.longest > worst:
		return fmt.Errorf("worst-case-time: proved %s, executed %s", worst, e.longest)
	case worst > 0 && s.within == 0 && !s.policy.Hedge.Enabled && e.longest != worst:
		return fmt.Errorf("worst-case-time: proved %s, executed at most %s", worst, e.longest)
	case load.Attempts < e.attempts || !s.policy.Hedge.Enabled && load.Attempts != e.attempts:
		return fmt.Errorf("load: proved %d, executed %d", load.Attempts, e.attempts)
	}
	checks := map[string]bool{
		"attempt-unreachable": e.attempts < r.MaxAttempts,
		"breaker-stays-open":  s.policy.Circuit.Kind != "" && s.staysOpen(),
		"timeout-unreachable": !e.timedOut,
		"budget-never-binds":  !s.refuses(e.attempts),
		"class-never-matches": s.useless(),
		"budget-never-admits": s.denied(),
	}
	if e.attempts > 1 {
		checks["zero-delay"] = !e.waited
	}
	if e.attempts == r.MaxAttempts {
		checks["constant-delay"] = e.waited && !e.varied
	}
	if s.policy.Circuit.Kind != "" {
		if opens := s.opens(); opens || s.policy.Circuit.Kind == policy.CircuitSlow && s.policy.Limit.Rate.Count == 0 {
			checks["breaker-never-opens"] = !opens // with a rate, some that hold do not open here: see opens
		}
	}
	if due, _ := s.lastDue(); !s.policy.Limit.Active() && (e.latest > due || r.Jitter == policy.JitterNone && e.latest != due) {
		return fmt.Errorf("outage-outlasts-retries: proved %s, executed %s", due, e.latest)
	}
	for _, o := range outages {
		if !s.postponed() && !s.policy.Limit.Active() && (e.latest >= o.Lasts || r.Jitter == policy.JitterNone) {
			checks["outage-outlasts-retries"] = e.latest < o.Lasts
		}
	}
	for code, violated := range checks {
		if err := expect(code, violated); err != nil {
			return err
		}
	}
	return nil
}

// opens sends failing attempts through the policy's rate limit as soon as it has turns for them, and through its breaker. All end as
// late as their timeouts allow, but no later than the last one that the breaker needs, so that most fall into one window. Several
// times of the first attempt shift the window's buckets, whose coarseness may still keep a breaker closed that finer traffic opens.
func (s *subject) opens() bool {
	end := amplify.End(s.policy, s.within)
	if end <= 0 {
		end = time.Minute
	}
	c := s.policy.Circuit
	for shift := time.Duration(0); shift <= c.Window; shift += c.Window/10 + 1 {
		l, b := limit.New(s.policy.Limit, shift), circuit.New(c)
		starts := make([]time.Duration, max(c.MinimumCalls, c.Failures, 1))
		for i := range starts {
			_, wait, _ := l.Turn(shift, policy.Unbounded)
			starts[i] = shift + wait
		}
		last := starts[len(starts)-1]
		if c.Kind == policy.CircuitSlow {
			last += min(c.SlowAfter, end) + 1 // a timer fires a little late
		}
		for _, start := range starts {
			if t, _, ok := b.Acquire(start, false); ok {
				stop := min(start+end+1, last)
				b.Done(t, circuit.Failure, stop-start, stop)
			}
		}
		if b.State(last) == circuit.Open {
			return true
		}
	}
	return false
}

// staysOpen opens a breaker of the policy with attempts that fail and are slow, and asks it for a probe an hour later.
func (s *subject) staysOpen() bool {
	c := s.policy.Circuit
	b := circuit.New(c)
	for range max(c.MinimumCalls, c.Failures) {
		if t, _, ok := b.Acquire(0, false); ok {
			b.Done(t, circuit.Failure, c.SlowAfter+1, 0)
		}
	}
	if b.State(0) != circuit.Open {
		panic("the breaker did not open")
	}
	_, _, probes := b.Acquire(time.Hour, false)
	return !probes
}

// refuses asks a fresh budget for a thousand calls at a time, each with that many attempts and with its hedges, and reports whether it
// refused anything.
func (s *subject) refuses(attempts int) bool {
	ref := s.policy.Retry.Budget
	described, ok := s.budgets[ref.Name]
	if !ok {
		return false
	}
	b, _ := budget.New(described)
	refused := false
	ask := func(index int, kind budget.AttemptKind) {
		for range 1000 {
			d := b.AllowAttempt(nil, s.key, index, kind, ref) //nolint:staticcheck // budgets of documents have no use for it
			refused = refused || !d.Allowed
		}
	}
	for n := range attempts {
		ask(n, budget.KindRetry)
	}
	end := amplify.End(s.policy, s.within)
	if h := s.policy.Hedge; h.Enabled && (h.TriggerName != policy.TriggerFixed || end <= 0 || h.HedgeDelay <= end) {
		ask(1, budget.KindHedge)
	}
	return refused
}

// denied reports that a fresh budget refuses the first attempt, or each retry of a call that has the budget to itself.
func (s *subject) denied() bool {
	described, ok := s.budgets[s.policy.Retry.Budget.Name]
	if !ok {
		return false
	}
	b, _ := budget.New(described)
	if !b.AllowAttempt(nil, s.key, 0, budget.KindRetry, s.policy.Retry.Budget).Allowed { //nolint:staticcheck // budgets of documents have no use for it
		return true
	}
	b, _ = budget.New(described)
	return s.policy.Retry.MaxAttempts > 1 && !b.AllowAttempt(nil, s.key, 1, budget.KindRetry, s.policy.Retry.Budget).Allowed //nolint:staticcheck // as above
}

// useless judges errors of every known class, with and without each entry of the lists.
func (s *subject) useless() bool {
	r := s.policy.Retry
	kinds := func(r *policy.Retry) (list []classify.Kind) {
		for _, c := range append(policy.Classes(), "http_501", "http_404", "http_410") {
			o, _ := judge(r, c)
			list = append(list, o.Kind)
		}
		return list
	}
	all := kinds(&r)
	for i := range r.RetryOn {
		less := r
		less.RetryOn = append(append([]policy.Class{}, r.RetryOn[:i]...), r.RetryOn[i+1:]...)
		if len(less.RetryOn) > 0 && slices.Equal(kinds(&less), all) {
			return true
		}
	}
	r.RetryOn, r.ClassifierName = nil, "" // judged alone, since retry_on and the classifier may exclude what abort_on does
	all = kinds(&r)
	for i := range r.AbortOn {
		less := r
		less.AbortOn = append(append([]policy.Class{}, r.AbortOn[:i]...), r.AbortOn[i+1:]...)
		if slices.Equal(kinds(&less), all) {
			return true
		}
	}
	return false
}

// TestT1NoClaimIsFalseOnRandomDocuments compares the claims with executions of package decision, budgets, limits and breakers: a
// million documents at full size. Others compare what an executor does: hedges, load, timeouts, and attempts that cannot start.
//
// Not compared with an execution are names-from-code, the rules of graphs, breakers under a concurrency limit, budgets that several
// policies share or that only hedges name, and whether a breaker under a rate limit that is not proved closed can open.
func TestT1NoClaimIsFalseOnRandomDocuments(t *testing.T) {
	documents := 1_000_000
	if testing.Short() {
		documents = 2_000
	}
	var wg sync.WaitGroup
	failed := make(chan string, 1)
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2026, uint64(w)))
			for range documents / workers {
				text := randomDocument(r)
				if err := contradiction(text); err != nil {
					select {
					case failed <- fmt.Sprintf("%v\n%s", err, text):
					default:
					}
					return
				}
				if len(failed) > 0 {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(failed) > 0 {
		t.Fatal(<-failed)
	}
}
