// Package httpsink sends transactions to an HTTP endpoint: webhooks.
//
// # The model
//
// A [Sink] makes one request for each Dispatch, with the payload as its body and the transaction's ID as its Idempotency-Key.
// The pipeline's step retries; the sink never sends a request again itself. It does not follow redirects, which could turn a
// POST into a GET and send headers elsewhere. Answers mean:
//
//	2xx                 success
//	408, 429, 5xx       retried, not before Retry-After if a 429 or 503 has one
//	3xx, other 4xx      a business error: not retried
//	no answer           retried
//
// After an answer, errors are [*tenethttp.StatusError], and classes such as http_503 apply. The errors are marked with their
// meaning; the classifier of package tenethttp gives the same outcome.
//
// Private, loopback, link-local and other special addresses are refused unless the options allow them. The check is made on
// the address that is dialled, and no proxy is used.
//
// # What it does not do
//
// The body of an answer is read, up to 16 KiB, only so that its connection can be used again. Errors hold neither the URL's
// path and query nor a header or body.
package httpsink
