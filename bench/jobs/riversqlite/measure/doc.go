// Package measure times systems that keep and run jobs.
//
// A [System] is a job system with a worker that does nothing. A [Task] says what is done with it and gives [Numbers]. Tasks
// and numbers are plain data, so that a system can also be measured in a process of its own: River's newest SQLite driver
// and its newest PostgreSQL driver need different versions of River, which one program cannot hold. This package lies in
// the module of the former for that reason and imports the standard library only.
package measure
