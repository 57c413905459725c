// Command jobs compares Tenet's durable jobs with other job systems for Go, on the same PostgreSQL server and on SQLite.
//
//	cd bench
//	go run ./jobs                                          # everything, in about five minutes
//	go run ./jobs -only burn-down                          # scenarios whose name contains a text
//	go run ./jobs -n 20000 -backlog 100000 -long 20000     # a quick look
//	go run ./jobs -markdown ../docs/benchmarks-jobs.md     # everything, written as the document
//
// # How it measures
//
// A [Scenario] is one task and a list of cases that do it. A round measures each case once, on a new, empty database that is
// dropped afterwards; the rounds are interleaved, so that other load affects all cases alike, and the result is the median
// over the rounds. After the first round, which includes the scenarios that run only once, rounds are repeated while the
// time allows. Package riversqlite/measure has the tasks.
//
// The PostgreSQL server is a private one with fsync on, or that of the environment variable TENET_TEST_POSTGRES. All
// systems meet it with the same settings. On SQLite the peers commit with synchronous=NORMAL, which may lose the last
// commits in a power failure, and Tenet with FULL, which does not.
//
// The bars are goals of the project. The command prints them with the measured figures and never fails because of them.
package main
