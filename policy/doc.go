// Package policy is the vocabulary of Tenet: keys, policies, limits, reasons, classes and the catalog of operation
// categories. It holds data and the rules that data obeys; it runs nothing and reads no clock.
//
// # The model
//
// A [Key] names an operation ("user-service.GetUser"). A [Policy] says how often, how fast and for how long work under
// that key may be repeated. A [Provider] finds the policy of a key; [Set] is the provider that a parsed document
// compiles to: immutable, versioned and shared by everyone who asks.
//
// Policies are read in two ways. [Policy.Normalize] is lenient: what is missing takes its default, what is out of range
// is clamped, and [Meta] says what changed. [Policy.Validate] is strict: it reports every violation at once, each with
// its field path, and is used for documents and by runners. In both, a zero field is an absent field. What counts as a
// default or a limit depends on the surface and is itself a value: [CallLimits], [JobLimits], [StepLimits].
//
// All types are plain data. Durations are time.Duration in Go and seconds in JSON. Values are safe to share between
// goroutines as long as nobody changes them; a compiled policy (see [Compile]) must never be changed.
package policy
