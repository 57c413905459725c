// Package prom exports Tenet's events as Prometheus metrics.
//
// # The model
//
// [New] registers one collector and returns an [Observer] to hand to an executor or worker. All metrics start with
// tenet_, times are in seconds, and metrics.go holds every name; docs/metrics.md lists them with their labels.
//
// Labels are bounded. The key label tells [Options.MaxKeys] keys apart; further keys are counted together as "other".
// Pipelines are bounded in the same way. Reasons, outcomes, surfaces and steps have a fixed set of values; any other value is
// "other" too. Amplification, as operations run per call:
//
//	sum by (key) (rate(tenet_attempts_total[5m])) / sum by (key) (rate(tenet_calls_total[5m]))
//
// An Observer is safe for concurrent use; an event costs well under a microsecond.
package prom
