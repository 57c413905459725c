// Package simulate runs policies in a simulated world: services that queue and slow down, clients that call them, and faults over
// time. It shows what retries, budgets, breakers, limits and hedges do to a service under load before they do it in production.
//
// # The model
//
// A [Scenario] is data, in YAML or JSON. Every simulated client has a production [retry.Executor] with the mechanisms of its
// policy, and clients that enqueue jobs have production workers ([job.Worker]) and a store in memory. They run unchanged; only their
// clocks, timers and goroutines are the simulation's, so that an hour takes a moment and always has the same result. Nothing of what
// they decide is calculated here.
//
// A service is a queue in front of a number of slots. A client that gives up, because its attempt has timed out, does not take its
// request back: the service still serves it, in vain, unless its queue drops abandoned requests.
//
// # What it does not do
//
// Pipelines are not simulated, nor are the CPU, the garbage collector, connections and their set-up. docs/simulate.md lists the
// published results that it reproduces.
package simulate
