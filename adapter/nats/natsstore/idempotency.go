package natsstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/wait"
)

var (
	_ idempotency.Store = (*Idempotency)(nil)
	_ idempotency.Admin = (*Idempotency)(nil)
)

// Idempotency keeps records in a key-value bucket, one key each. It is safe for concurrent use by any number of processes
// whose clocks agree; see the package documentation.
type Idempotency struct{ bucket stream }

func bucketConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_" + o.Bucket, Subjects: []string{"$KV." + o.Bucket + ".>"}, Description: "idempotency records of Tenet",
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage,
		Replicas: o.Replicas, Duplicates: o.Duplicates, AllowRollup: true, DenyDelete: true, AllowMsgTTL: true,
		// AllowDirect stays off: only the leader knows the last write.
	}
}

func checkBucket(c jetstream.StreamConfig) error {
	switch {
	case c.MaxAge > 0:
		return errors.New("max_age: must be 0, because every record has its own expiry")
	case c.DenyPurge:
		return errors.New("deny_purge: must be off, because expired records have to be removed")
	case c.AllowDirect && c.Replicas > 1:
		return errors.New("allow_direct: must be off on a replicated bucket, because followers may return old records")
	}
	return checkKept(c)
}

// Begin implements [idempotency.Store].
func (s *Idempotency) Begin(ctx context.Context, req idempotency.BeginRequest) (b idempotency.Begun, err error) {
	err = s.change(ctx, req.ID, func(current *idempotency.Record, now time.Time) (*idempotency.Record, bool, error) {
		var write bool
		b, write = idempotency.Begin(current, req, now)
		return &b.Record, write, nil
	})
	if err != nil {
		return idempotency.Begun{}, failed("begin", err)
	}
	return b, nil
}

// Renew implements [idempotency.Store].
func (s *Idempotency) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	err := s.change(ctx, c.ID, func(current *idempotency.Record, now time.Time) (*idempotency.Record, bool, error) {
		next, err := idempotency.Renew(current, c, lease, now)
		return &next, true, err
	})
	return failed("renew", err)
}

// Settle implements [idempotency.Store].
func (s *Idempotency) Settle(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	if err := settlement.Validate(); err != nil {
		return err
	}
	err := s.change(ctx, c.ID, func(current *idempotency.Record, now time.Time) (*idempotency.Record, bool, error) {
		next, write, err := idempotency.Settle(current, c, settlement, now)
		return &next, write, err
	})
	return failed("settle", err)
}

// Get implements [idempotency.Store].
func (s *Idempotency) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	bucket, err := s.bucket.get(ctx)
	if err != nil {
		return idempotency.Record{}, failed("get", err)
	}
	v, err := s.read(ctx, bucket, id)
	switch {
	case err != nil:
		return idempotency.Record{}, failed("get", err)
	case v.record == nil || v.record.Expired(s.now()):
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return *v.record, nil
}

// Resolve implements [idempotency.Admin].
func (s *Idempotency) Resolve(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	if err := settlement.Validate(); err != nil {
		return err
	}
	err := s.change(ctx, c.ID, func(current *idempotency.Record, now time.Time) (*idempotency.Record, bool, error) {
		next, err := idempotency.Resolve(current, c, settlement, now)
		return &next, true, err
	})
	return failed("resolve", err)
}

// Clear implements [idempotency.Admin].
func (s *Idempotency) Clear(ctx context.Context, c idempotency.Claim) error {
	err := s.change(ctx, c.ID, func(current *idempotency.Record, now time.Time) (*idempotency.Record, bool, error) {
		if current == nil || current.Claim() != c || current.Live(now) {
			return nil, false, idempotency.ErrFenced
		}
		return nil, true, nil
	})
	return failed("clear", err)
}

// headRoom is the space for a record without its result: the names in its ID, the failure's message, headers.
const headRoom = 16 << 10

// MaxResult returns the maximum size of a result, in bytes, for idempotency.GuardOptions.MaxResult: the server's max_payload
// (1 MiB by default) or the bucket's limit, less 16 KiB for the rest of the record.
func (s *Idempotency) MaxResult(ctx context.Context) (int, error) {
	bucket, err := s.bucket.get(ctx)
	if err != nil {
		return 0, failed("max result", err)
	}
	limit := s.bucket.db.conn.MaxPayload()
	if size := int64(bucket.CachedInfo().Config.MaxMsgSize); size > 0 {
		limit = min(limit, size)
	}
	return int(max(limit-headRoom, 0)), nil
}

// now returns the time by which records expire and leases end.
func (s *Idempotency) now() time.Time { return s.bucket.db.options.Clock() }

// version is a stored revision of a record.
type version struct {
	record   *idempotency.Record // nil if there is none
	raw      []byte
	revision uint64 // 0 if the key has no message
}

const unsureWrites = 3 // attempts at a write whose result is unknown

// change changes a record atomically: it reads the record, calls decide for the next one (nil removes it), and writes that only
// if no other write came first. Otherwise it starts over. Before it repeats a write whose answer was lost, it checks whether
// the write took place. It can recognise its own write, because the owner and the time in it make it unique.
func (s *Idempotency) change(ctx context.Context, id idempotency.ID, decide func(current *idempotency.Record, now time.Time) (*idempotency.Record, bool, error)) error {
	bucket, err := s.bucket.get(ctx)
	if err != nil {
		return err
	}
	var m *nats.Msg // the decided write, for a key at revision base
	var base uint64
	for decided, unsure, try := false, 0, 0; ; try++ {
		if try >= 3 { // spreads out writers that keep losing the race
			_ = wait.For(ctx, wait.Jittered(time.Millisecond, 50*time.Millisecond, try-3))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v, err := s.read(ctx, bucket, id)
		if err != nil {
			return err
		}
		if unsure > 0 && bytes.Equal(v.raw, m.Data) {
			return nil
		}
		if !decided || v.revision != base {
			next, write, err := decide(v.record, s.now())
			if err != nil || !write {
				return err
			}
			m = &nats.Msg{Subject: s.subject(id)}
			if m.Data, m.Header, err = s.encode(next, bucket.CachedInfo().Config.AllowMsgTTL); err != nil {
				return err
			}
			base, decided = v.revision, true
		}
		err = s.write(ctx, m, base)
		if err == nil || refused(err) {
			return err
		}
		if isConflict(err) {
			continue
		}
		if unsure++; unsure >= unsureWrites || ctx.Err() != nil {
			return err
		}
	}
}

func (s *Idempotency) read(ctx context.Context, bucket jetstream.Stream, id idempotency.ID) (version, error) {
	var m *jetstream.RawStreamMsg
	err := s.bucket.db.ask(ctx, func(ctx context.Context) (err error) {
		m, err = bucket.GetLastMsgForSubject(ctx, s.subject(id))
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return version{}, nil
	}
	if err != nil {
		return version{}, err
	}
	v := version{raw: m.Data, revision: m.Sequence}
	if isMarker(m.Header) {
		return v, nil
	}
	v.record, err = decode(m.Data)
	if err != nil {
		return version{}, fmt.Errorf("record %s: %w", m.Subject, err)
	}
	v.record.ID = id
	return v, nil
}

func (s *Idempotency) write(ctx context.Context, m *nats.Msg, base uint64) error {
	ctx, cancel := s.bucket.db.bounded(ctx)
	defer cancel()
	_, err := s.bucket.db.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(base), jetstream.WithRetryAttempts(0))
	return err
}

// subject returns the key of a record. IDs may hold any bytes, and different IDs have different subjects.
func (s *Idempotency) subject(id idempotency.ID) string {
	h := sha256.New()
	for _, part := range []string{id.Tenant, id.Operation, id.Key} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return "$KV." + s.bucket.db.options.Bucket + "." + hex.EncodeToString(h.Sum(nil))
}

// isConflict reports whether another write came first. Single and replicated streams have different codes for it.
func isConflict(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// refused reports whether the write did not take place and would not if it were repeated.
func refused(err error) bool {
	if _, ok := errors.AsType[*jetstream.APIError](err); ok {
		return !isConflict(err)
	}
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrConnectionClosed)
}

func failed(step string, err error) error {
	switch {
	case err == nil, errors.Is(err, idempotency.ErrFenced), errors.Is(err, idempotency.ErrNotFound):
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return kind.Wrap("idempotency: "+step+": the record is larger than the server's max_payload; keep a reference instead of the result", err)
	}
	return kind.Wrap("idempotency: "+step, err)
}
