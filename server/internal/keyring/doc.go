// Package keyring keeps the Ed25519 keys with which servers sign policy documents. Servers that share a store share the keys:
// the first one creates them.
package keyring
