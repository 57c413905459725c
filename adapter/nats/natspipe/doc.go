// Package natspipe reads transactions from a JetStream stream and writes them to one.
//
// # The model
//
//	stream ──► durable pull consumer ──fetch──► Source ──► engine
//	                  ▲                                      │
//	                  └──ack · nak with delay · in progress──┘
//
//	engine ──► Sink ──publish, Nats-Msg-Id, wait for the acknowledgement──► stream
//
// A [Source] binds to a durable consumer, which it creates if it is missing; the stream must exist. Any number of sources may
// share a consumer. The server redelivers a message that is neither acknowledged nor extended within AckWait, to any of them.
// A fetch is one request, answered with the messages that are there or the first one that arrives. An outage is an error,
// never an empty stream.
//
// A transaction's ID is the message's Nats-Msg-Id, or else STREAM:SEQUENCE, which stays the same over redeliveries. Headers
// are its metadata. A Source reads a Sink's messages unchanged.
//
// # What it does not do
//
// Acknowledgements are not confirmed unless DoubleAck is set: a lost one means another delivery. A source refuses to settle an
// earlier delivery of a message that it has fetched again, but the server takes a late acknowledgement although it has delivered
// the message to another source since. By default a server acknowledges a publish before it is on disk. Deduplication by ID lasts
// as long as the stream's duplicate window.
package natspipe
