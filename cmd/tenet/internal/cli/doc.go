// Package cli holds what all commands share: the program with its streams, exit codes and settings, the forms of output, and the documents
// that commands read.
package cli
