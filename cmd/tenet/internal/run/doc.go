// Package run runs a command under a policy.
package run
