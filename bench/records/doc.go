// Command records measures idempotency guards and the audit log against the bare operations that they are made of: two
// commits of one row, and appending and syncing the same bytes.
//
//	cd bench
//	go run ./records
//	go run ./records -rounds 5 -events 10000000 -markdown ../docs/benchmarks-records.md
//
// It starts PostgreSQL by itself. Rounds are interleaved and medians count. Bars are goals of the project: they are printed
// with what was measured and never fail the command.
package main
