// Package natspolicy distributes policy documents through a JetStream key-value bucket, for those who run NATS already.
// Import it as natspolicy beside github.com/nats-io/nats.go.
//
// # The model
//
//	Tenet server ──Copy──► bucket, one key per document ──Document──► controlplane.NewStored
//
// A value is the signed envelope that a Tenet server sends (package protocol), so that neither the bucket nor whoever can
// write to it is trusted: [Document] refuses what the server did not sign, and never goes back to an older revision.
// [Put] replaces a value only by a newer revision.
//
// The bucket distributes the revision that is in force for everyone. It cannot choose clients, so that rollouts by shares or
// labels do not reach it before they are promoted, and its clients do not report.
//
// An envelope must fit into the server's max_payload, 1 MiB by default.
package natspolicy
