package memory

import "github.com/tenetdev/tenet/internal/virtual"

// DB is a store in memory. It is safe for concurrent use.
type DB struct {
	jobs        *Jobs
	idempotency *Idempotency
	policies    *Policies
	limits      *Limits
}

// Open returns an empty store.
func Open() *DB {
	return &DB{jobs: newJobs(), idempotency: newIdempotency(), policies: newPolicies(), limits: newLimits()}
}

// OpenJobsIn returns an empty job store with the time of a simulated world; see package simulate.
func OpenJobsIn(w virtual.World) *Jobs {
	jobs := newJobs()
	jobs.world = w
	return jobs
}

// Jobs is the job store. All calls return the same one.
func (db *DB) Jobs() *Jobs { return db.jobs }

// Idempotency is the store of idempotency records. All calls return the same one.
func (db *DB) Idempotency() *Idempotency { return db.idempotency }

// Policies is the policy store. All calls return the same one.
func (db *DB) Policies() *Policies { return db.policies }

// Limits is the store of shared limits. All calls return the same one.
func (db *DB) Limits() *Limits { return db.limits }

// Close closes everything in the store. Closing again does nothing.
func (db *DB) Close() error {
	db.idempotency.close()
	db.policies.close()
	db.limits.close()
	return db.jobs.Close()
}
