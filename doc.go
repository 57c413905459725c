// Package tenet runs work that can fail under policies that are data.
//
// A policy document says how often, how fast and for how long any piece of work may be repeated. One pure decision core
// applies it to calls (this package and retry), jobs and pipelines. Budgets, circuit breakers and hedging bound the load
// that repetition adds; limits bound how many attempts run at a time and start per period. Observers, timelines and the audit
// log say afterwards why something was retried.
//
//	document ──► policy.Set ──► Provider ──► Executor ──► admit → run → classify → decide → wait
//	                                              └──────► Observer, Timeline, Journal
//
// The shortest use needs no configuration: three attempts, 10 ms doubling to 250 ms, full jitter.
//
//	err := tenet.Do(ctx, tenet.ParseKey("user-service.GetUser"), func(ctx context.Context) error {
//		return client.GetUser(ctx, id)
//	})
//
// To configure, make an executor with a provider (a document, a control plane) and set it once with retry.SetGlobal, or
// keep it and call its methods.
//
// The packages, from the bottom up:
//
//	policy, classify, decision      the vocabulary, what a result means, what follows from it
//	budget, circuit, hedge, limit   the mechanisms; sharing lets processes share them
//	observe, audit                  records of the work; a log that can be verified and replayed
//	retry                           the executor, the only place where the mechanisms meet
//	idempotency                     effects that happen once per key
//	job, payload                    durable work in a store; compressed and encrypted payloads
//	pipeline                        engines that move transactions from sources to sinks
//	policyfile, controlplane        where policies come from
//	rollout, prove, simulate        what a policy does, before and while it takes effect
//	adapter/...                     one folder per technology: stores, sources, sinks, clients and exporters
//	server, cmd/tenet               the HTTP API and web UI; the command
//	tenettest, storetest            for tests of programs that use Tenet, and of stores
package tenet
