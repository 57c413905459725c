// Package migrate orders, renders and reports versioned SQL migrations. It does not connect to a database: stores run the steps.
//
// # The model
//
// A store embeds a pair of files for every version, 001_jobs.up.sql and 001_jobs.down.sql, numbered from 1 without gaps,
// and keeps a list of the applied versions. In the files, {{schema}} stands for the store's schema or a prefix.
//
//	files ──Load──► Set ──Plan(direction, applied)──► steps ──(the store, under its lock)──► applied
//
// Up applies every missing version in order. Down reverts the newest one. A database with a version that the files do not
// contain was made by a newer program and is refused.
package migrate
