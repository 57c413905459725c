// Package tenethttp sends HTTP requests under policies, and serves them under limits ([Shed]).
//
// # The model
//
// [Client] runs a request through an executor; [Transport] does the same below an http.Client. Each attempt sends
// a copy of the request, with its body from GetBody. The answer decides:
//
//	answer                        may be repeated    otherwise
//	below 400                     success            success
//	408, 429, 5xx                 retry              returned as a response
//	any other 4xx                 returned as a response; a business outcome, which no breaker counts as a failure
//	no answer (transport error)   retry              an error
//
// A request may be repeated if its method is GET, HEAD, OPTIONS, TRACE, PUT or DELETE, or if it has an Idempotency-Key
// header or was given one with retry.WithIdempotencyKey, which is then sent with every attempt. Anything else is only
// repeated on proof that it was not sent: no connection was made for it, or an HTTP/2 server refused the stream. A POST
// that timed out on an open connection is not repeated, nor is it hedged. A body without GetBody is sent once. A redirect that
// the http.Client refuses, such as the eleventh in a row, is an error that is not repeated.
//
// net/http's own transport repeats a request that may be repeated when a kept-alive connection turns out to be closed before
// any answer came. Such a repetition is part of one attempt: no policy, budget or record sees it.
//
// Retry-After is read from 429 and 503, as seconds or as a date relative to the answer's Date. It marks the answer as
// retryable (classify.After) and so outranks the policy's retry_on and abort_on.
//
// When the policy allows no further attempt and the last one brought a response, that response is returned with a nil
// error and its body unread, although records show the call as failed. Every other failure is a [*retry.Error], also if an
// answer came but the caller's context ended or the journal refused the record.
//
// # Bodies
//
// Response bodies stream: an attempt's timeout and overall_timeout end with the headers, while the caller's context still
// counts. As with net/http, the caller must close the body; its context lives until then or until the end of the body.
// Before a retry, up to 64 KiB of the old answer are read for at most 100 ms, so that its connection can be used again.
//
// # Names
//
// Clients register [Classifier] as [ClassifierName], and [Classes], with the executor that they use. Code that makes its calls
// by other means registers them with retry.Executor.Register. Errors and records contain method, host, path and status, never
// a query, a header or a payload.
package tenethttp
