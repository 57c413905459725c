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
// A [Source] has a connection with one channel and one consumer. Its prefetch bounds how many deliveries the broker sends
// ahead; it grows only when the engine holds all of them and asks for more. A [Sink] has a connection with one channel in
// confirm mode, shared by concurrent dispatches. Both reconnect after a lost connection, after waits of 25 ms to
// 1 s; operations wait for the connection up to Options.Timeout.
//
// # Messages
//
// A transaction's ID is the message's message_id, its correlation the correlation_id; headers are its metadata, as text.
// A Source reads a Sink's messages unchanged. Messages of other publishers should have an ID: without one the
// transaction has a new ID at each delivery, so that neither the guard nor the records recognise it.
//
// # What is promised
//
// Delivery is at least once. What a Sink has dispatched is confirmed by the broker: stored, for a durable queue. A Source
// acknowledges each delivery once, and several together only if all deliveries before them are settled. Failed transactions stay
// unacknowledged in this process for their delay, and then return to their place in the queue. No message is copied for that,
// so a crash at any moment neither loses nor duplicates one. A delay therefore ends early when the process or its connection
// ends, and after 25 minutes, because the broker takes deliveries back after its consumer_timeout of 30 minutes.
//
// Quorum queues count deliveries for all consumers, classic queues only say whether there was one before: then a Source counts the
// deliveries that it gave back itself. First deliveries come in the queue's order.
//
// # What it does not do
//
// It declares queues if Options.Declare says so, but no exchanges or bindings. It cannot extend a delivery: work that takes
// longer than consumer_timeout loses its channel, and all open deliveries of the channel come again. Streams are not supported.
// RabbitMQ 4 drops messages of quorum queues after 20 returns unless a delivery-limit is set; set one above what the
// policy needs, or a dead-letter exchange. Works with RabbitMQ 3.10 and newer.
package rabbitmq
