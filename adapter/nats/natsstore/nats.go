package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/internal/address"
	"github.com/tenetdev/tenet/internal/wait"
)

// Defaults of [Options].
const (
	DefaultBucket     = "TENET_IDEMPOTENCY_V1"
	DefaultTimeout    = 5 * time.Second
	DefaultDuplicates = 2 * time.Minute
)

// Options configure a [DB]. The zero value works.
type Options struct {
	// Bucket is the key-value bucket of the idempotency records. Default [DefaultBucket].
	Bucket string
	// Replicas of a bucket or stream that the store creates, 1 to 5. Default 1.
	Replicas int
	// Timeout bounds each request to the server, within the caller's context. Default [DefaultTimeout].
	Timeout time.Duration
	// Duplicates is the duplicate window of an audit stream that the store creates: how long the server recognises an event
	// that is appended again. Default [DefaultDuplicates]. The server keeps the IDs of these events in memory.
	Duplicates time.Duration
	// Clock decides leases and expiry. Default time.Now.
	Clock func() time.Time
	// Connect holds further options for [Open]: credentials, TLS, handlers.
	Connect []nats.Option
}

// kind is the prefix of this package's errors.
const kind address.Kind = "nats"

// DB is Tenet's data on a NATS system with JetStream. It is safe for concurrent use.
type DB struct {
	options Options
	conn    *nats.Conn
	js      jetstream.JetStream
	owned   bool // Close closes the connection

	idempotency Idempotency
	log         stream // of audit events
}

// Open connects to a server, or a comma-separated list of servers of one cluster. A lost connection is restored, however long
// that takes; until then operations fail within [Options].Timeout.
func Open(ctx context.Context, servers string, o Options) (*DB, error) {
	if ctx == nil {
		return nil, errors.New("nats: Open: the context is nil")
	}
	if err := ctx.Err(); err != nil {
		return nil, kind.Wrap("open", err)
	}
	options := append([]nats.Option{nats.Name("tenet"), nats.MaxReconnects(-1)}, o.Connect...)
	if deadline, ok := ctx.Deadline(); ok {
		options = append(options, atMost(time.Until(deadline)))
	}
	if err := kind.Readable(servers); err != nil {
		return nil, err
	}
	conn, err := nats.Connect(servers, options...)
	if err != nil {
		return nil, kind.OpenError(servers, err)
	}
	db, err := OpenConn(conn, o)
	if err != nil {
		conn.Close()
		return nil, err
	}
	db.owned = true
	return db, nil
}

func atMost(limit time.Duration) nats.Option {
	return func(o *nats.Options) error {
		o.Timeout = min(o.Timeout, max(limit, time.Millisecond))
		return nil
	}
}

// OpenConn uses an existing connection, which the caller closes. It does not send requests to the server.
func OpenConn(conn *nats.Conn, o Options) (*DB, error) {
	o.Bucket = cmp.Or(o.Bucket, DefaultBucket)
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Timeout = cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	o.Duplicates = cmp.Or(max(o.Duplicates, 0), DefaultDuplicates)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if conn == nil {
		return nil, errors.New("nats: OpenConn: the connection is nil")
	}
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(o.Timeout))
	if err != nil {
		return nil, kind.Wrap("jetstream", err)
	}
	db := &DB{options: o, conn: conn, js: js}
	db.idempotency.bucket = stream{db: db, config: bucketConfig(o), check: checkBucket, moves: true, turn: wait.NewMutex()}
	db.log = stream{db: db, config: auditConfig(o), check: checkKept, turn: wait.NewMutex()}
	return db, nil
}

// Idempotency returns the store of idempotency records. Its bucket is created at the first use.
func (db *DB) Idempotency() *Idempotency { return &db.idempotency }

// Audit returns a sink and source of audit events. The stream is created at the first use.
func (db *DB) Audit() *Audit { return &Audit{db: db} }

// Close closes the connection if Open made it. Running operations fail.
func (db *DB) Close() error {
	if db.owned {
		db.conn.Close()
	}
	return nil
}

// bounded returns a context with the timeout of a single request.
func (db *DB) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, db.options.Timeout)
}

// ask makes a request up to four times; it must be safe to repeat. A replicated stream does not answer while a leader is being
// elected, and a request that arrives then is lost.
func (db *DB) ask(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := db.bounded(ctx)
	defer cancel()
	for {
		once, cancel := context.WithTimeout(ctx, db.options.Timeout/4)
		err := f(once)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// stream is a JetStream stream that is created at the first use.
type stream struct {
	db     *DB
	config jetstream.StreamConfig
	check  func(jetstream.StreamConfig) error // checks an existing stream
	moves  bool                               // a new message replaces an older one, and messages may be removed from the end

	turn wait.Mutex       // for open
	open jetstream.Stream // nil until found or created
}

// get returns the stream, and creates it if it does not exist. It does not change an existing stream: an operator may have
// configured replicas, limits or placement.
func (s *stream) get(ctx context.Context) (jetstream.Stream, error) {
	if s.turn.Lock(ctx) != nil {
		return nil, ctx.Err()
	}
	defer s.turn.Unlock()
	if s.open != nil {
		return s.open, nil
	}
	var found jetstream.Stream
	err := s.db.ask(ctx, func(ctx context.Context) (err error) {
		found, err = s.findOrMake(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.config.Name, err)
	}
	if err := s.check(found.CachedInfo().Config); err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.config.Name, err)
	}
	s.open = found
	return found, nil
}

func (s *stream) findOrMake(ctx context.Context) (jetstream.Stream, error) {
	found, err := s.db.js.Stream(ctx, s.config.Name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return found, err
	}
	found, err = s.db.js.CreateStream(ctx, s.config)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was quicker
		return s.db.js.Stream(ctx, s.config.Name)
	}
	return found, err
}

// checkKept returns an error for a stream that would lose messages.
func checkKept(c jetstream.StreamConfig) error {
	switch {
	case c.Storage != jetstream.FileStorage:
		return errors.New("storage: must be file")
	case c.PersistMode == jetstream.AsyncPersistMode:
		return errors.New("persist_mode: must be default, or acknowledged writes are lost when the server is killed")
	case c.Retention != jetstream.LimitsPolicy:
		return errors.New("retention: must be limits")
	case c.Discard != jetstream.DiscardNew && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		return errors.New("discard: must be new where max_msgs or max_bytes is set, or the limit removes what counts")
	}
	return nil
}
