// Package policy is the vocabulary of Tenet: keys, policies, limits, reasons, classes and the catalog of operation
// categories. It contains data and the rules for that data; it does not run anything and does not read a clock.
//
// # The model
//
// A [Key] names an operation ("user-service.GetUser"). A [Policy] says how often, how fast and for how long work under
// that key may be repeated. A [Provider] finds the policy of a key; [Set] is the provider that a parsed document
// compiles to: immutable, versioned and shared by all callers.
//
// Policies are read in two ways. [Policy.Normalize] is lenient: missing values take their defaults, values out of range
// are clamped, and [Meta] says what changed. [Policy.Validate] is strict: it reports every violation at once, each with
// its field path, and is used for documents and by runners. In both, a zero field is an absent field. Defaults and limits
// depend on the surface and are themselves values: [CallLimits], [JobLimits], [StepLimits].
//
// All types are plain data. Durations are time.Duration in Go and seconds in JSON. Values are safe to share between
// goroutines as long as they are not changed; a compiled policy (see [Compile]) must never be changed.
package policy
