// Package pipelinetest holds conformance suites for connectors: [Sources] checks a pipeline.Source, [Sinks] a pipeline.Sink, and
// [Crashes] both with a server that is killed; [BenchSource] measures a source. The tests of a connector run them against its
// real server.
//
// # The model
//
// Every case opens a new queue. It is a subtest named after the rule and the behaviour that it checks ("L11/a nacked delivery
// returns after its delay"), so that `-run 'TestSource/L11'` selects the cases of a rule. A suite skips what a source does
// not support, such as Nack, and checks what the source says that it supports.
// The suites run in real time.
package pipelinetest
