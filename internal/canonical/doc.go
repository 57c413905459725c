// Package canonical writes values as canonical JSON (RFC 8785) and hashes them, so that equal values give equal bytes
// on every machine.
package canonical
