package memory

// DB is a store in memory. It is safe for concurrent use.
type DB struct {
	jobs *Jobs
}

// Open returns an empty store.
func Open() *DB { return &DB{jobs: newJobs()} }

// Jobs is the job store. All calls return the same one.
func (db *DB) Jobs() *Jobs { return db.jobs }

// Close closes everything in the store. Closing again does nothing.
func (db *DB) Close() error { return db.jobs.Close() }
