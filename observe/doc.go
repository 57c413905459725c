// Package observe is what Tenet tells about the work that it runs: events, attempt records and timelines, and the
// interfaces of those who listen.
//
// # The model
//
// An [Observer] gets an [Event] for every attempt that ended or was denied, for every decision, for every finished piece
// of work and for what operators should know (breakers that changed state, operations that overrun). It cannot fail the
// work. A [Journal] gets decisions before they take effect and can refuse them. A [Timeline] is the story of one call;
// [RecordTimeline] collects it by context, and its String is a table for people.
//
// Events and what becomes of them:
//
//	CallStarted, AttemptStarted ─► Starter: may put something (a span) into the context of what begins
//	AttemptEnded, Decided ───────► Observer; Journal first where one is set
//	CallEnded ───────────────────► Observer and the Capture of RecordTimeline
//	CircuitChanged, Reported ────► Observer
//	Flowed ──────────────────────► Observer, of pipelines: what is fetched, in flight and ended
//
// [Slog] writes events as log lines; the packages otel and prom below this one export spans and metrics. [Multi] joins
// several observers. Exporters of metrics keep their labels bounded with [PerKey] and [ReasonLabel]. A Starter that begins
// spans leaves their IDs in the context ([WithSpan]), where log lines find them.
//
// A run of a pipeline's engine is a piece of work, and so is each transaction, with a trace of its own ([Trace]); their steps
// are pieces of work below them.
//
// Events and all they point at are read-only and may be kept. Observers and journals are called from the goroutines of
// the work and must be safe for concurrent use.
package observe
