// Package testhttp connects HTTP clients and handlers without sockets, so that tests can run both in virtual time.
package testhttp
