// Package migrate orders, renders and reports versioned SQL migrations. It knows no database: stores run the steps.
//
// # The model
//
// A store embeds a pair of files for every version, 001_jobs.up.sql and 001_jobs.down.sql, numbered from 1 without gaps,
// and keeps a list of the versions that are applied. The texts hold {{schema}} where the store's schema, or a prefix,
// belongs.
//
//	files ──Load──► Set ──Plan(direction, applied)──► steps ──(the store, under its lock)──► applied
//
// Up applies every version that is missing, in order. Down takes back the newest one. A database with a version that the
// files do not hold was made by a newer program and is refused.
package migrate
