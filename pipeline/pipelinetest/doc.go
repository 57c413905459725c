// Package pipelinetest holds public conformance suites for connectors: [Sources] checks a pipeline.Source, [Sinks] a
// pipeline.Sink, and [Crashes] both of them, with a server that is killed; [BenchSource] measures a source. A connector's own tests call them against its real
// server; users who write a connector do the same.
//
// # The model
//
// Every case opens a queue of its own and is a subtest named after the rule and the behaviour that it checks
// ("L11/what is given back comes again after its delay"), so that `-run 'TestSource/L11'` selects the cases of a rule.
// What a source cannot do by its kind, such as taking deliveries back, is left out; what it says that it can is checked.
// The suites run in real time.
package pipelinetest
