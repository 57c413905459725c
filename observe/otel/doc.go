// Package otel exports what Tenet does as OpenTelemetry spans and metrics.
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
// A denied attempt ran nothing: it is an event on the call's span. A span's status is Error where the call or attempt
// failed; that of a hedge which lost to another is not. A hedge that is still running when the call returns ends its span
// later than the call's.
//
// names.go holds the names of all spans, attributes and metrics; docs/metrics.md lists them. Labels of metrics are bounded
// as in package prom: keys by [Options.MaxKeys], the others by closed sets.
//
// Error texts are written to spans as the operation made them; payloads, results and idempotency keys are not. An Observer
// is safe for concurrent use.
package otel
