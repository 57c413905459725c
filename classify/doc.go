// Package classify determines what an attempt's result means: whether the work succeeded, may be repeated, must not be
// repeated, or is aborted.
//
// # The model
//
// An [Outcome] is that meaning, with a category (business, system, timeout), an optional class of error and the wait that the
// other side asked for. It is derived from the first of these that applies:
//
//  1. the caller's context is done: abort
//  2. a mark on the error: [Permanent], [Unrecoverable], [Business], [After]
//  3. the policy's abort_on classes
//  4. the policy's [Classifier]; without one, errors are retryable
//  5. the policy's retry_on classes, which only narrow
//
// Package decision implements this order, so that a recorded outcome can be derived again. This package supplies the parts:
// marks, classifiers and the families of classes that name an error ([Family]).
//
// Everything here is immutable or a pure function and safe for concurrent use.
package classify
