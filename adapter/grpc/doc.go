// Package tenetgrpc runs gRPC client calls under policies, and servers under their limits ([UnaryServerInterceptor]).
//
// # The model
//
// [UnaryClientInterceptor] and [StreamClientInterceptor] run every call of a connection through an executor. The status
// code says what follows:
//
//	code                                                                         outcome
//	OK                                                                           success
//	Unavailable, ResourceExhausted, Aborted                                      retryable
//	DeadlineExceeded                                                             retryable (timeout) if the attempt's own
//	                                                                             timeout struck, else not
//	InvalidArgument, NotFound, AlreadyExists, PermissionDenied, Unauthenticated,
//	FailedPrecondition, OutOfRange, Unimplemented                                business: not retried, and no breaker
//	                                                                             counts it as a failure
//	Canceled, Unknown, Internal, DataLoss, and errors without a status           not retried; breakers count a failure
//
// A policy's retry_on narrows the retryable codes by their classes, such as grpc_unavailable. gRPC does not say which
// methods are idempotent: give those that are not a policy with max_attempts 1, or with retry_on grpc_unavailable and no
// timeout.
//
// A server can ask for a wait, with a google.rpc.RetryInfo detail or the trailer grpc-retry-pushback-ms; the longer one
// counts, and it outranks the policy's retry_on and abort_on. A negative or unreadable trailer forbids the retry (gRFC
// A6).
//
// Every error has a gRPC status for status.FromError and status.Code: that of the last attempt or, where none was made,
// Canceled, DeadlineExceeded, Unavailable (refused by a breaker or budget),
// ResourceExhausted (refused by a limit) or Unknown. errors.As finds the *retry.Error
// in it.
//
// # Streams
//
// Messages that were exchanged on a stream are never repeated. A call that streams from the client, or both ways, is repeated
// only while it is being opened. A call that streams from the server alone is repeated until its first message (or, if
// Header is asked for first, its headers) has arrived: its request is kept until then, and it is sent when the caller
// first waits for the answer, not before. The attempt's and the policy's timeouts end when the stream is established;
// the caller's context goes on counting. As ever with gRPC, receive until an error or cancel the context.
//
// # Limits
//
// The interceptors do not switch off the retries that a service config asks grpc-go for; use grpc.WithDisableRetry, or
// attempts multiply. Each attempt decodes into a message of its own, which is then copied into the caller's, so a losing hedge
// cannot write into it. Do not change a hedged request after the call: a losing hedge may still send it. The attempt that
// decided fills the call options Header, Trailer and Peer of a unary call; every attempt that ends fills those of a stream, so
// prefer the stream's own Header and Trailer. OnFinish is called for every attempt.
//
// The interceptors register [Classifier] as [ClassifierName], and [Classes], with the executor that they use.
package tenetgrpc
