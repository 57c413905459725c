// Package policystore is the contract of the store behind a control plane: named policy documents with immutable revisions,
// rollouts with their evidence, the clients that follow the documents, tokens and settings.
//
// # The model
//
//	Document ──Current──► Revision 7        in force for everyone …
//	    └────Rollout────► Revision 8        … except for the share of clients that the rollout has chosen
//
// A [Revision] never changes. A [Document] is the only mutable part: publishing, every step of a rollout and a freeze are
// one compare-and-set of its Version, so that any number of servers can share a store and none promotes a revision twice.
// Numbers of revisions only grow: to bring an old content back, a server publishes it anew.
//
// Implementations are adapter/memory, adapter/sqlite and adapter/postgres; package storetest holds the suite that they
// pass.
package policystore
