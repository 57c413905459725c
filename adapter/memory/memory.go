package memory

// DB is a store in memory. It is safe for concurrent use.
type DB struct {
	jobs        *Jobs
	idempotency *Idempotency
}

// Open returns an empty store.
func Open() *DB { return &DB{jobs: newJobs(), idempotency: newIdempotency()} }

// Jobs is the job store. All calls return the same one.
func (db *DB) Jobs() *Jobs { return db.jobs }

// Idempotency is the store of idempotency records. All calls return the same one.
func (db *DB) Idempotency() *Idempotency { return db.idempotency }

// Close closes everything in the store. Closing again does nothing.
func (db *DB) Close() error {
	db.idempotency.close()
	return db.jobs.Close()
}
