// Package prove decides what can be proved of a policy document: attempts that can never start, hedges that can never launch,
// breakers that can never open, budgets that can never admit or bind, retries without delay or bound, and more.
//
// # The model
//
// A [Rule] is a property of a policy, a budget or a call graph. [Document] checks every rule on everything that a document names
// and returns a [Finding] for each: the property holds, or it is violated, with the numbers. It asks the production
// core: package decision for delays, verdicts and judgements, and budgets, breakers, limits and triggers themselves, each fresh. A
// violation carries a [Counterexample], the questions with the core's answers; [Counterexample.Replay] asks them again. Three kinds
// have none, since there is nothing to ask: a budget that no policy asks, a suppression without effect, and an outage that matches
// no policy.
//
// # What a verdict means
//
// A verdict is about this document alone. It holds for every seed, every traffic and every duration of attempts, under these
// assumptions: operations honour their contexts, so that an attempt ends with its timeout; budgets are those of the document,
// although a budget registered in code under the same name would win; budgets, breakers and limits of scope shared are not judged
// by what one process counts; classifiers named http and grpc, and the classes of HTTP and gRPC, are those of Tenet's packages; and
// max_extra_load is at least a billionth.
//
// Leases and retention do not appear: a worker renews the lease of a job that runs, and retention removes only jobs that have
// ended, so only a deadline can end a job early.
package prove
