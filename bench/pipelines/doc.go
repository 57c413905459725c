// Command pipelines measures the pipeline engines and their connectors against loops written by hand, Watermill's router and
// bare clients that do the same acknowledgements.
//
//	cd bench
//	go run ./pipelines
//	go run ./pipelines -rounds 5 -markdown ../docs/benchmarks-pipelines.md
//
// It starts NATS in its own process and RabbitMQ beside it. Rounds are interleaved and medians count. Bars are goals of the
// project: they are printed with what was measured and never fail the command.
package main
