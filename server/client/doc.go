// Package client is the client of a server's HTTP API. Its parts implement the interfaces of the stores behind the server, so
// that what works with a store works with a server: [Client.Jobs], [Client.Records], [Client.Audit]. [Client.Documents] and the tokens have no store of their own.
//
// A request that fails is repeated under a retry policy where that is safe: reads, and changes with an Idempotency-Key, which
// the server makes once. Changes under an If-Match and the making of tokens are sent once.
//
// An error of the server is a [*Problem]. Where a store has an error of its own for the same thing, such as
// job.ErrNotFound, errors.Is finds it too.
package client
