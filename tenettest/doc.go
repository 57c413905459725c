// Package tenettest helps to test code that retries. Its executor does everything that the real one does, except that it
// records the waits between attempts instead of sleeping.
package tenettest
