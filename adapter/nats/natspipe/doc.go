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
// A [Source] binds to a durable consumer, which it makes where it is missing; the stream has to exist. Any number of sources
// may share a consumer. What is not acknowledged within AckWait, and not extended, is delivered again, here or elsewhere. A
// fetch is one request, answered by what is there or by the first message that comes. An outage is an error, never an empty
// stream.
//
// A transaction's ID is the message's Nats-Msg-Id, or else STREAM:SEQUENCE, which stays the same over redeliveries. Headers
// are its metadata. A [Sink] writes them so that a Source reads what was put in.
//
// # What it does not do
//
// Acknowledgements are sent and not confirmed unless DoubleAck is set: one that is lost means another delivery. A server
// acknowledges a publish before it is on the disk unless it is set up otherwise. Deduplication by ID lasts as long as the
// stream's duplicate window.
package natspipe
