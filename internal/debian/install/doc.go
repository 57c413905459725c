//go:build unix

// The command install installs the Debian packages whose programs tests need, where they are missing.
package main
