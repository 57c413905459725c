// Command pipelines measures the pipeline engines and their connectors against loops written by hand, Watermill's router and
// bare clients that do the same acknowledgements.
//
//	cd bench
//	go run ./pipelines
//	go run ./pipelines -rounds 5 -markdown ../docs/benchmarks-pipelines.md
//
// It starts NATS in its own process and RabbitMQ as a separate one. Rounds are interleaved, and results are medians. Bars are
// goals of the project: the command prints them with the measured figures and never fails because of them.
package main
