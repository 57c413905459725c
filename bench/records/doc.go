// Command records measures idempotency guards and the audit log against the bare operations that they are made of: two
// commits of one row, and appending and syncing the same bytes.
//
//	cd bench
//	go run ./records
//	go run ./records -rounds 5 -events 10000000 -markdown ../docs/benchmarks-records.md
//
// It starts PostgreSQL. Rounds are interleaved, and results are medians. Bars are goals of the project: the command prints them
// with the measured figures and never fails because of them.
package main
