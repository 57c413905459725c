// Package demo holds the deliveries of "tenet demo": a thousand webhooks of an imaginary shop, as the job lines that job
// stores import. Their addresses, http://demo.invalid/hooks/…, do not exist; the demo delivers them to an endpoint of
// its own.
//
// Each line is a JSON object with the fields type (always http), queue (the destination), unique_key (its ID, sent as
// Idempotency-Key) and payload: method, url, headers, body as it is sent, and expect_status.
package demo

import _ "embed" // for the file below

// deliveries is a variable because of how embedding works; nothing changes it.
//
//go:embed deliveries.jsonl
var deliveries []byte

// Deliveries returns the content of deliveries.jsonl: one job line for each delivery.
func Deliveries() string { return string(deliveries) }
