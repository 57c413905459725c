// Package client is the client of a server's HTTP API. Its parts implement the interfaces of the stores behind the server, so
// that what works with a store works with a server: [Client.Jobs], [Client.Records], [Client.Audit].
//
// An error of the server is an *api.Problem. Where a store has an error of its own for the same thing, such as
// job.ErrNotFound, errors.Is finds it too.
package client
