// Package observe is what Tenet tells about the work that it runs: events, attempt records and timelines, and the
// interfaces of those who listen.
//
// # The model
//
// An [Observer] gets an [Event] for every attempt that ended or was denied, for every decision, for every finished piece
// of work and for what operators should know (breakers that changed state, operations that overrun). It cannot fail the
// work. A [Journal] gets decisions before they take effect and can refuse them. A [Timeline] is the story of one call;
// [RecordTimeline] collects it by context.
//
// Events and all they point at are read-only and may be kept. Observers and journals are called from the goroutines of
// the work and must be safe for concurrent use.
package observe
