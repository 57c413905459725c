// Package protocol holds the messages that a control plane's server and its clients exchange over HTTP. It performs no I/O.
//
//	GET  /v1/documents/{name}/live     the signed revision that the client should have, as an [Envelope]
//	POST /v1/documents/{name}/reports  what the client did with it, as a [Report]
//
// The first is one resource with three forms. With "Accept: text/event-stream" it is a stream of server-sent events: one
// "revision" event per envelope, and comments as heartbeats. With "Prefer: wait=N" and If-None-Match it is a long poll, which
// the server answers as soon as there is another revision, or with 304 after N seconds. Otherwise it is a conditional GET.
//
// A client names itself with [HeaderClient] and [HeaderLabels], so that a rollout can choose it.
//
// # Signatures
//
// The server signs every envelope with Ed25519. A client trusts the keys that it was configured with, or else the first key
// that it sees, which it pins. A new key counts once a trusted key has endorsed it. Revision numbers only grow: a client
// refuses an envelope that is older than the newest one it has seen, so that an old copy cannot be played back.
package protocol
