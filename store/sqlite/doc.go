// Package sqlite keeps jobs in one SQLite file, without cgo and without a server.
package sqlite
