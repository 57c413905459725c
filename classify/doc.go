// Package classify says what an attempt's result means: whether the work succeeded, may be repeated, must not be
// repeated, or is aborted.
//
// # The model
//
// An [Outcome] is that meaning, with a category (business, system, timeout), an optional class of error and the wait
// that the other side asked for. Where it comes from, in this order:
//
//  1. the caller's context is done: abort
//  2. a mark on the error: [Permanent], [Unrecoverable], [Business], [After]
//  3. the policy's abort_on classes
//  4. the policy's [Classifier]; without one, errors are retryable
//  5. the policy's retry_on classes, which only narrow
//
// The order itself lives in package decision, so that a recorded judgement can be derived again. This package supplies
// the parts: marks, classifiers and the families of classes that name an error ([Family]).
//
// Everything here is immutable or a pure function and safe for concurrent use.
package classify
