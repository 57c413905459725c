// Package observe defines the records of work that Tenet runs (events, attempt records and timelines) and the interfaces
// that receive them.
//
// # The model
//
// An [Observer] receives an [Event] for every attempt that ended or was denied, for every decision, for every finished piece
// of work and for conditions that operators should know of (breakers that changed state, operations that overrun). It cannot
// fail the work. A [Journal] receives decisions before they take effect and can refuse them. A [Timeline] is the record of
// one call; [RecordTimeline] collects it by context, and its String is a readable table.
//
// Events and their receivers:
//
//	CallStarted, AttemptStarted ─► Starter: may add a value, such as a span, to the context of the work
//	AttemptEnded, Decided ───────► Observer; Journal first, if one is set
//	CallEnded ───────────────────► Observer and the Capture of RecordTimeline
//	CircuitChanged, LimitChanged, Reported ────► Observer
//	Flowed ──────────────────────► Observer, of pipelines: deliveries fetched, in flight and ended
//
// [Slog] writes events as log lines; packages adapter/otel and adapter/prometheus export spans and metrics. [Multi] combines
// several observers. Exporters of metrics keep their labels bounded with [PerKey] and [ReasonLabel]. A Starter that starts
// spans puts their IDs into the context ([WithSpan]), from which log lines take them.
//
// A run of a pipeline's engine is a piece of work, and so is each transaction, with its own trace ([Trace]); their steps are
// their children.
//
// Events and everything that they point to are read-only and may be kept. Observers and journals are called from the
// goroutines of the work and must be safe for concurrent use.
package observe
