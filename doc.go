// Package tenet runs work that can fail under policies that are data.
//
// A policy document says how often, how fast and for how long any piece of work may be repeated. One pure decision core
// applies it to calls (this package and retry), jobs and pipelines. Budgets, circuit breakers and hedging bound the load
// that repetition adds; observers, timelines and the audit log say afterwards why something was retried.
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
// The packages, from the bottom up: policy (vocabulary), classify (what a result means), decision (what follows),
// budget, circuit and hedge (mechanisms), observe (records), retry (the executor), policyfile and controlplane (where
// policies come from), tenethttp and tenetgrpc (integrations), tenettest (for your tests).
package tenet
