// Package idempotency makes repetition safe: an effect that is asked for again under the same key does not happen again.
package idempotency
