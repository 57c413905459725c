package redis

import (
	"cmp"
	"errors"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/tenetdev/tenet/internal/address"
)

// kind begins the errors of this package.
const kind address.Kind = "redis"

// Options configure a DB. The zero value works.
type Options struct {
	// MaxConns bounds the connections. Default 4: exchanges come one after another.
	MaxConns int
}

// DB is a server of Redis or Valkey. It is safe for concurrent use.
type DB struct {
	client *redis.Client
}

// Open prepares connections to a server. The URL has the form redis://user:password@host:port/database, rediss://… with TLS, or
// unix:///path. It does not connect, so that a process can start while the server is away.
func Open(url string, o Options) (*DB, error) {
	if err := address.Check(url); err != nil {
		return nil, kind.Wrap("open", err)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		// The parser's error may hold the URL, and so a password.
		return nil, kind.Wrap("open", errors.New("the URL cannot be read; write redis://user:password@host:port/database"))
	}
	options.MaxRetries = -1 // a script that ran although its answer was lost must not run again
	options.ContextTimeoutEnabled = true
	options.PoolSize = cmp.Or(max(o.MaxConns, 0), 4)
	return &DB{client: redis.NewClient(options)}, nil
}

// DisableLog turns off the log that go-redis writes to stderr, for the whole process. Errors are returned anyway.
func DisableLog() { logging.Disable() }

// Limits is the server's store of shared limits.
func (db *DB) Limits() *Limits { return &Limits{db} }

// Close closes the connections. Closing again does nothing.
func (db *DB) Close() error {
	if err := db.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return kind.Wrap("close", err)
	}
	return nil
}
