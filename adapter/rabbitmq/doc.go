// Package rabbitmq consumes queues of RabbitMQ and publishes to them.
//
// # The model
//
//	queue ──prefetch──► Source ──fetch──► engine
//	  ▲                   │
//	  └──ack · requeue, after a delay in this process──┘
//
//	engine ──► Sink ──publish, persistent, mandatory──► exchange ──► queue
//	              ◄────────────confirm──────────────────────────────┘
//
// A [Source] has a connection with one channel and one consumer. What the broker hands to it at a time is bounded by its
// prefetch, which grows only when the engine holds all of it and asks for more. A [Sink] has a connection with one channel in
// confirm mode, shared by concurrent dispatches. Both connect again when their connection is lost, after waits of 50 ms to
// 1 s; operations wait for that up to Options.Timeout.
//
// # Messages
//
// A transaction's ID is the message's message_id, its correlation the correlation_id; headers are its metadata, as text.
// A Sink writes messages that a Source reads as they were put in. Messages of others should have an ID: without one the
// transaction has another ID at each delivery, and neither the guard nor the records know it again.
//
// # What is promised
//
// Delivery is at least once. What a Sink has dispatched is confirmed by the broker: stored, for a durable queue. A Source
// acknowledges each delivery once, several together only where all before them are settled. Failed transactions stay
// unacknowledged in this process for their delay and go back to their place in the queue then; no message is ever copied to
// bring it back, so that a crash at any moment neither loses nor doubles one. A delay therefore ends early when the process
// or its connection ends, and after 25 minutes, as the broker takes deliveries back after its consumer_timeout of 30.
//
// Quorum queues count deliveries for all consumers, classic queues only say whether there was one: then a Source counts what
// it gave back itself. First deliveries come in the queue's order.
//
// # What it does not do
//
// It makes queues where Options.Declare says so, and no exchanges or bindings. It cannot extend a delivery: work that takes
// longer than consumer_timeout loses its channel, and all that the channel has out comes again. Streams are not supported.
// RabbitMQ 4 drops messages of quorum queues after 20 returns unless a delivery-limit is set; set one that is above what the
// policy needs, or a dead-letter exchange. Works with RabbitMQ 3.10 and newer.
package rabbitmq
