// Package client is the Go client of a server's HTTP API. [Client.Jobs], [Client.Records] and [Client.Audit] implement the
// interfaces of the stores: code that takes a store takes a server, too. [Client.Documents] and the methods for tokens exist
// here only.
//
// A request that fails is repeated under a retry policy where that is safe: reads, and changes with an Idempotency-Key, which
// the server makes once. Changes with an If-Match, and requests that create tokens, are sent once.
//
// An error of the server is a [*Problem]. Where a store has an error of its own for the same thing, such as
// job.ErrNotFound, errors.Is finds it too.
package client
