// Package httpjob is a ready-made job type that sends an HTTP request: a webhook, a callback, a ping. It needs no code: the
// payload says everything.
//
// # The model
//
// The job's ID travels as Idempotency-Key, so every method may be repeated. The expected status completes the job and keeps
// the response, bounded, as its output. 408, 429 and 5xx are retried, no earlier than Retry-After asks (429 and 503);
// other answers and requests that cannot be built are dead at once. A request that cannot be sent because the worker lacks file
// descriptors is tried again after 10 s, without using up an attempt.
//
// Payloads come from whoever may enqueue, so the addresses that a request may reach are guarded: private, loopback,
// link-local and other special addresses are refused unless Options allow them. The check is made on the address that is
// dialled, after name resolution and for every redirect, and no proxy is used. Redirects are followed unless the payload
// expects their status. A redirect to another host or from https to http does not get the payload's headers, except Content-Type, Idempotency-Key
// and User-Agent.
package httpjob
