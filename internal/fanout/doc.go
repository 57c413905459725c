// Package fanout signals any number of listeners that something happened. A signal carries no data and never blocks the sender.
package fanout
