// Package deliver brings documents to the programs that follow them.
//
//	store ──Watch──► Hub ──► document (one per name, signed bytes of its revisions ready to send)
//	                             ├──► stream    each wakes only if the revision that its client should have has changed
//	                             ├──► long poll
//	                             └──► GET
//	store ◄──every second── clients and evidence ◄── reports
//
// A client gets the document's current revision or, if the running rollout selects it, the candidate. A client that holds the
// candidate keeps it, whatever its ID is now: revision numbers never fall.
//
// Nothing is queued for a slow reader: a stream that falls behind is sent the newest revision next, and is cut off when a
// write takes too long.
//
// While the store is out of reach, streams stay open, reports are collected, and other requests are answered with 503 and
// Retry-After, since another server may have changed the document meanwhile.
package deliver
