// Package httpsink sends transactions to an HTTP endpoint: webhooks.
//
// # The model
//
// A [Sink] makes one request for each Dispatch, with the payload as its body and the transaction's ID as its Idempotency-Key.
// Repetition is the step's: the sink never sends again by itself, and follows no redirect, which could turn a POST into a GET
// and carry headers elsewhere. What an answer means:
//
//	2xx                 done
//	408, 429, 5xx       again, after Retry-After where a 429 or 503 has one
//	3xx, other 4xx      a business error: not again
//	no answer           again
//
// Errors are [*tenethttp.StatusError] where there was an answer, and classes such as http_503 apply. They carry their meaning
// with them; a policy with the classifier of package tenethttp comes to the same.
//
// Private, loopback, link-local and other special addresses are refused unless the options allow them. The check is made on
// the address that is dialled, and no proxy is used.
//
// # What it does not do
//
// The body of an answer is read, up to 16 KiB, only so that its connection can be used again. Errors hold neither the URL's
// path and query nor a header or body.
package httpsink
