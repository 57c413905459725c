// Command release gives all modules of the repository one version.
//
// # The model
//
//	go run ./cmd/tenet/internal/release v0.5.0
//
// The modules require each other in the last released version, and go.work replaces them by the folders. A
// release writes the new version into every go.mod and into go.work, commits that, and tags the commit once for each module:
// v0.5.0 for the root, adapter/postgres/v0.5.0 and so on for the others. Nothing is pushed; the command prints how.
package main
