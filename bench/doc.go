// Command bench compares Tenet with other Go libraries, all in one process, and draws the outage grid.
//
//	cd bench
//	go run .                                      # every scenario, alone and on all processors
//	go run . -only hedge                          # scenarios whose name contains a text
//	go run . -rounds 15 -time 300ms               # steadier medians
//	go run . -grid                                # the outage grid alone
//	go run . -markdown ../docs/benchmarks.md      # everything, written as the document
//	go test -bench . -benchmem                    # the same cases as ordinary benchmarks
//	go test ./...                                 # checks that every case does the work it claims to do
//
// # How it measures
//
// A [Scenario] is one piece of work and a list of cases that do it: Tenet, its peers, a hand-written loop. A round
// measures each case once through testing.Benchmark; the rounds are interleaved, so that other load affects all cases alike,
// and the result is the median over the rounds. All calls get a context that can be cancelled, as in a server.
//
// Peers are set up once, outside the measurement, in the cheapest way that does the scenario's work; see peers.go. The bars
// are goals of the project. The command prints them with the measured figures and never fails because of them.
//
// The module is separate from Tenet's own, so that peers do not appear in the dependencies of Tenet's users.
package main
