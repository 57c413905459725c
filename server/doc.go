// Package server serves the stores of Tenet over HTTP: jobs, queues, idempotency records, audit logs, policy documents and
// tokens, for programs, operators and the command line (tenet … --server URL).
//
// # The model
//
//	request ─► limits ─► who is it? ─► may it? ─► once? ─► on record ─► store
//	           429, 413   401           403        409      503          404, 412, 503
//
// A [Server] keeps nothing: any number of them run side by side on one store. An operation is declared once, with its scope,
// in Go types, from which the OpenAPI document at /v1/openapi.json is made. Every operation that changes something needs the
// right scope, is protected from being done twice (a header Idempotency-Key, a header If-Match, or a name that exists once),
// and is on record in the audit log, with the one who did it, before it takes effect.
//
// Callers are known by bearer tokens or, people, by OpenID Connect. A server without either serves the machine that it runs
// on and no other.
//
// Package client is the client; package api holds the types of what is sent.
package server
