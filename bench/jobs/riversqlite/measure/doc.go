// Package measure times job systems.
//
// A [System] is a job system with a worker that does nothing. A [Task] describes a measurement and returns [Numbers]. Tasks and
// numbers are plain data, so that a separate process can measure a system: River's newest SQLite driver and its newest
// PostgreSQL driver need different versions of River, which one program cannot contain. For that reason this package is in
// the module of the SQLite driver and imports only the standard library.
package measure
