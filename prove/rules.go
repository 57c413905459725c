package prove

// rules in the order of the documentation. testdata/rules has a file of examples for each: a document that violates it, the mended
// one and, for some, the call graph that both are checked with. A note is never violated: its first document gives it
// more to state than the second.
var rules = append(attemptRules(), mechanismRules()...)

func attemptRules() []*Rule {
	return []*Rule{
		{
			Code: "attempt-unreachable", Severity: Error, policy: attemptUnreachable,
			Property: "Every attempt that max_attempts allows can start before the work ends.",
			Why:      "The overall timeout, or a step's transaction_timeout or loop timeout, ends the work before the attempt is due, even if every attempt fails at once and every delay is the shortest that its jitter allows. For jobs this is also the deadline that always ends them before their last attempt.",
			Remedy:   "raise the timeout, or lower max_attempts or the delays",
		},
		{
			Code: "timeout-unreachable", Severity: Warning, policy: timeoutUnreachable,
			Property: "An attempt's timeout ends before the work does.",
			Why:      "If the whole work ends first, the timeout has no effect, and an attempt that hangs is never retried.",
			Remedy:   "lower the timeout of an attempt, or raise the timeout of the work",
		},
		{
			Code: "unbounded-retry", Severity: Warning, policy: unboundedRetry,
			Property: "Retries end: below the highest number of attempts that any surface accepts, or with a timeout of the whole work, and with delays of less than 100 years in total.",
			Why:      "Work that cannot succeed occupies its worker or its caller, and loads the other side, until somebody notices. The highest max_attempts is the usual way to write \"retry forever\"; one attempt less passes.",
			Remedy:   "lower max_attempts, or give overall_timeout (calls, jobs) or transaction_timeout (steps)",
		},
		{
			Code: "zero-delay", Severity: Warning, policy: zeroDelay,
			Property: "Some delay separates a failure from its retry.",
			Why:      "Retries without a delay keep a processor busy and hit a server that is already in trouble as fast as it fails. Steps of pipelines have no backoff unless one is given. A jitter that may come near 0 is not a violation; the message says so.",
			Remedy:   "give a backoff",
		},
		{
			Code: "constant-delay", Severity: Warning, policy: constantDelay,
			Property: "Of several retries, some wait longer than others, or jitter spreads them.",
			Why:      "Clients that fail together and wait equally long retry together each time, and as often in the second hour of an outage as in its first minute.",
			Remedy:   "let the delays grow (backoff_multiplier, backoff_cap), or give a jitter",
		},
		{
			Code: "outage-outlasts-retries", Severity: Warning,
			Property: "Each outage in prove.outages can be over when the last attempt is due.",
			Why:      "A server that restarts or fails over refuses requests immediately, so retries are used up as fast as their delays allow. prove.outages declares how long that may last. The verdict assumes the longest delay before every retry; jitter may use the retries up sooner. Waits that a server asks for or that code sets are not counted. Jobs and steps with a breaker, a budget or a limit are not judged, because these may postpone attempts without counting them; the message says so. A job is judged in every queue that the document names, and a step for one delivery.",
			Remedy:   "raise max_attempts, the delays or the timeout of the work, or correct the entry",
		},
		{
			Code: "load-factor", Severity: Warning, policy: loadFactor,
			Property: "A call becomes at most 10 attempts, or a budget bounds them.",
			Why:      "Each attempt may start its own hedges, so retries and hedges multiply. In an outage every call makes all of them.",
			Remedy:   "lower max_attempts or max_hedges, or give a budget of kind retry_ratio",
		},
		{
			Code: "worst-case-time", Severity: Note, policy: worstCaseTime,
			Property: "The longest that the work takes.",
			Why:      "The numbers are the sum of all timeouts (hedges may each start just before their predecessor ends), waits for a limit and longest delays, and the same with the longest pushback that a server may ask for every time. Unless a timeout bounds the attempts, only the caller's context ends them. A breaker, a budget or a limit may postpone jobs and steps without bound. This is a note: it states numbers and is never violated.",
			Remedy:   "give timeout and overall_timeout",
		},
		{
			Code: "names-from-code", Severity: Note, policy: namesFromCode,
			Property: "The names that a program must register for the document to work.",
			Why:      "Classifiers, classes of errors, triggers and budgets can come from code. Without them, calls are not retried as the document says, or not at all. This is a note: it lists names and is never violated.",
			Remedy:   "register the names, or do without them",
		},
		{
			Code: "class-never-matches", Severity: Warning, policy: classNeverMatches,
			Property: "No class in retry_on or abort_on is ruled out by another one, and none in retry_on by the classifier http or grpc.",
			Why:      "abort_on comes first, so a class of retry_on that lies within one of abort_on has no effect. Errors that ask for a wait, such as an answer with Retry-After, are retried whatever the lists and the classifier say. A class beside a wider one in the same list has no effect. The list retry_on only narrows what the classifier retries: of HTTP answers, http retries 408, 429 and 5xx; of gRPC statuses, grpc retries UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED and DEADLINE_EXCEEDED. That holds for the classifiers and classes of Tenet's packages, not for others that a program registers under their names. Whether an operation returns errors of the remaining classes is not decided.",
			Remedy:   "remove the class, or the one that includes it; with a classifier, list classes that it retries",
		},
	}
}

func mechanismRules() []*Rule {
	return []*Rule{
		{
			Code: "hedge-never-launches", Severity: Error, policy: hedgeNeverLaunches,
			Property: "A hedge can be launched.",
			Why:      "It cannot if it is due after the attempt has ended, if its budget can never pay for it, or if the attempt that it would join holds the only place or turn of the limit.",
			Remedy:   "lower the hedge's delay or cost, raise the timeout, budget or limit, or remove the hedge",
		},
		{
			Code: "hedge-always-launches", Severity: Warning, policy: hedgeAlwaysLaunches,
			Property: "max_extra_load or a budget bounds the hedges.",
			Why:      "Without a bound, a server that becomes slower than the delay receives a hedge for every attempt: the load at least doubles just when it is too high.",
			Remedy:   "give max_extra_load, for example 0.05, or a budget",
		},
		{
			Code: "breaker-never-opens", Severity: Error, policy: breakerNeverOpens,
			Property: "Some traffic opens the breaker.",
			Why:      "A breaker of kind slow never opens if attempts end by their timeout before they count as slow. One of kind rate or slow never opens if the rate limit starts fewer attempts within its window, and a timeout before it, than minimum_calls. A concurrency limit, which may also keep a breaker of kind slow closed, is not considered.",
			Remedy:   "lower slow_after or minimum_calls, or raise the timeout, window or rate",
		},
		{
			Code: "breaker-stays-open", Severity: Warning, policy: breakerStaysOpen,
			Property: "A breaker that opened lets a probe through within an hour.",
			Why:      "Only a probe can close the breaker. Until the cooldown is over it refuses everything, although the other side may have recovered long ago.",
			Remedy:   "lower the cooldown",
		},
		{
			Code: "budget-never-admits", Severity: Error, policy: budgetNeverAdmits,
			Property: "The full budget pays for an attempt, and for a retry if there are any.",
			Why:      "An attempt whose cost exceeds what the budget can ever hold is always refused.",
			Remedy:   "lower the cost, or raise the budget's capacity or burst",
		},
		{
			Code: "budget-never-binds", Severity: Warning, budget: budgetNeverBinds,
			Property: "Every budget is asked by some policy, and can refuse it something.",
			Why:      "A budget without effect looks like a protection that is not there. A budget that no policy asks has no counterexample, because there is nothing to ask. One that cannot refuse has a counterexample.",
			Remedy:   "name the budget in a policy, give it a kind that bounds, or remove it",
		},
		{
			Code: "graph-amplification", Severity: Warning,
			Property: "Along the call graph, retries multiply a node's requests by at most 10, after budgets.",
			Why:      "Layers multiply: three layers of 4 attempts turn one request into 64 on the last one.",
			Remedy:   "retry in one layer only, or give budgets",
		},
		{
			Code: "caller-gives-up", Severity: Warning,
			Property: "A call takes no longer than the attempt of its caller that waits for it.",
			Why:      "When the caller's attempt has ended by its timeout, the call that it waited for goes on in vain, and the caller's retry starts a second one beside it. The comparison is between one call and one attempt of its caller.",
			Remedy:   "give the inner call an overall_timeout below the outer attempt's timeout",
		},
		{
			Code: "suppression-unused", Severity: Warning,
			Property: "Every entry of prove.suppress accepts a violation.",
			Why:      "An entry without effect hides the next violation of its kind. There is no counterexample, because no decision depends on these entries.",
			Remedy:   "remove the entry, or correct its code and path",
		},
	}
}
