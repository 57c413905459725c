// Package tenetnats runs NATS operations under policies.
//
// # The model
//
// A [Client] wraps a connection. Each of its methods is one call of an executor under a category of the catalog. The category
// supplies the fields that the key's policy leaves open, and records carry its code:
//
//	method                key                 category            attempts, first wait, timeout of the catalog
//	Connect               nats.Connect        NATS_CONNECT        5, 1s, 10s
//	Client.Publish        nats.Publish        NATS_PUBLISH        3, 500ms, 5s
//	Client.PublishStream  nats.Publish        NATS_PUBLISH        3, 500ms, 5s
//	Client.Subscribe      nats.Subscribe      NATS_SUBSCRIBE      3, 500ms, 5s
//	Client.CreateStream   nats.StreamCreate   NATS_STREAM_CREATE  2, 2s, 15s
//	Client.CreateBucket   nats.KVCreate       KV_CREATE           2, 1s, 10s
//	Bucket.Get            nats.KVGet          KV_GET              3, 500ms, 5s
//	Bucket.Put            nats.KVPut          KV_PUT              3, 500ms, 5s
//	Bucket.Delete         nats.KVDelete       KV_DELETE           2, 1s, 5s
//
// The namespace of the keys is the client's own if it sets one.
//
// # Which errors are retried
//
//	error                                                     then
//	no responders, timeouts, lost or missing connections      retry
//	JetStream answers 5xx, anything unknown                   retry
//	key or message not found, key exists, wrong revision      none: a business outcome, which no breaker counts as a failure
//	bad subject, key or name, message too large, no           none
//	authorization, closed connection, no such bucket or
//	stream, JetStream not for this account, answers 4xx
//
// Errors are marked accordingly (classify.Business, classify.Permanent), which outranks the policy's retry_on and abort_on.
// Denied permissions to publish are reported only to the connection's error handler, because NATS does not say which message
// was denied.
//
// # Repetition
//
// A core message without an ID that may have been sent is not sent again, and no message is handed to a connection that is
// down, which would send it later. Messages to streams always have an ID and are stored once. A put may overwrite; see [Bucket.Put].
//
// # Names
//
// Clients register [Classifier] as [ClassifierName], and [Classes], with the executor that they use. Code that calls
// NATS without a Client registers them with retry.Executor.Register. Errors and records hold subjects, buckets and keys, never data.
package tenetnats
