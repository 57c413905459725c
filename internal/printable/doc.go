// Package printable escapes text from data so that it is safe to print to terminals and logs.
package printable
