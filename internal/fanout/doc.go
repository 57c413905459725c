// Package fanout tells any number of listeners that something happened, without saying what and without waiting for them.
package fanout
