// Package cli holds what all commands share: the program with its streams, exit codes and settings, the output formats, and the documents
// that commands read.
package cli
