// Package otel exports Tenet's events as OpenTelemetry spans and metrics.
//
// # The model
//
// [New] returns an [Observer] to hand to an executor or worker. Each call, execution of a job or step becomes a span,
// and each attempt a child of it under which the operation's own spans nest:
//
//	call user-service.GetUser
//	├── attempt user-service.GetUser      tenet.attempt=1 tenet.outcome=retryable
//	│   └── GET                           (made by the operation)
//	└── attempt user-service.GetUser      tenet.attempt=2 tenet.retry_index=1 tenet.outcome=success
//
// A run of a pipeline's engine is a span, below that of the run's caller. Each transaction has a trace of its own, linked to
// the run: it continues the one that its metadata name (traceparent and tracestate, W3C Trace Context), or begins one:
//
//	consume orders                        produce orders
//	└── fetch orders                          ┊ link
//	    └── attempt consumer/orders.fetch     ┊
//	    ┊ link                                ┊
//	transaction orders                    transaction orders
//	├── process orders                    ├── dispatch orders
//	│   └── attempt …                     │   └── attempt …
//	├── handle_success orders             ├── handle_success orders
//	└── handle_exception orders           └── handle_exception orders
//
// The span of a transaction that ignores its context and is left behind ends when it returns.
//
// Contexts carry the IDs of Tenet's spans for log lines (observe.SpanOf). A denied attempt, which ran no operation, is an event
// on the call's span. A span's status is Error if the call or attempt failed, but not for a hedge that lost to another
// attempt. The span of a hedge that is still running when the call returns ends after the call's.
//
// names.go holds the names of all spans, attributes and metrics; docs/metrics.md lists them. Labels of metrics are bounded
// as in package prom: keys and pipelines by [Options.MaxKeys], the others because their values are a fixed set.
//
// Error texts are written to spans as the operation made them; payloads, results and idempotency keys are not. An Observer
// is safe for concurrent use.
package otel
