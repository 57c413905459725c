package natsstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/idempotency"
)

// errEnough ends a scan early.
var errEnough = errors.New("enough")

// scan calls f for the messages from a sequence number to the current last one, in order. In a bucket a key that changes moves
// to the end, so there a scan goes on until it has caught up; otherwise it would miss every record that changes before it is read.
func (s *stream) scan(ctx context.Context, from uint64, headersOnly bool, f func(seq uint64, m jetstream.Msg) error) error {
	open, last, err := s.end(ctx)
	if err != nil || last == 0 || from > last {
		return err
	}
	messages, stop, err := s.messages(ctx, open, max(from, 1), headersOnly)
	if err != nil {
		return err
	}
	defer stop()
	for {
		m, meta, err := s.next(ctx, messages)
		if err != nil {
			return err
		}
		if meta.Sequence.Stream > last && !s.moves {
			return nil
		}
		if err := f(meta.Sequence.Stream, m); err != nil {
			return err
		}
		if s.moves && meta.NumPending == 0 || !s.moves && meta.Sequence.Stream == last {
			return nil
		}
	}
}

// end returns the stream and the sequence number of its last message, or 0 if it has none.
func (s *stream) end(ctx context.Context) (open jetstream.Stream, last uint64, err error) {
	if open, err = s.get(ctx); err != nil {
		return nil, 0, err
	}
	err = s.db.ask(ctx, func(ctx context.Context) error {
		info, err := open.Info(ctx)
		if err == nil && info.State.Msgs > 0 {
			last = info.State.LastSeq
		}
		return err
	})
	return open, last, err
}

func (s *stream) messages(ctx context.Context, open jetstream.Stream, from uint64, headersOnly bool) (jetstream.MessagesContext, func(), error) {
	var consumer jetstream.Consumer
	err := s.db.ask(ctx, func(ctx context.Context) (err error) {
		consumer, err = open.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, HeadersOnly: headersOnly,
			InactiveThreshold: time.Minute, MaxResetAttempts: 3,
		})
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	// A request for messages that was lost is noticed, and repeated, when two heartbeats are missing.
	heartbeat := min(max(s.db.options.Timeout/5, 500*time.Millisecond), 10*time.Second)
	messages, err := consumer.Messages(jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return nil, nil, err
	}
	return messages, func() {
		messages.Stop()
		if !s.db.conn.IsConnected() {
			return
		}
		ctx, cancel := s.db.bounded(context.WithoutCancel(ctx))
		defer cancel()
		_ = open.DeleteConsumer(ctx, consumer.CachedInfo().Name) // if this fails, the server deletes it after a minute
	}, nil
}

func (s *stream) next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, *jetstream.MsgMetadata, error) {
	bounded, cancel := s.db.bounded(ctx)
	defer cancel()
	m, err := messages.Next(jetstream.NextContext(bounded))
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	meta, err := m.Metadata()
	return m, meta, err
}

// Expire implements [idempotency.Admin]. Servers with per-message TTL (2.11 and newer) remove records themselves about an hour
// after their expiry; Expire only removes them earlier.
func (s *Idempotency) Expire(ctx context.Context, limit int) (int, error) {
	type old struct {
		seq    uint64
		counts bool
	}
	found := map[string]old{} // by subject, because a record that changes during the scan is read twice
	records, now := 0, s.now()
	err := s.bucket.scan(ctx, 1, true, func(seq uint64, m jetstream.Msg) error {
		if found[m.Subject()].counts {
			records--
		}
		delete(found, m.Subject())
		marker := isMarker(m.Headers())
		expires, err := time.Parse(time.RFC3339Nano, m.Headers().Get(expiresHeader))
		if !marker && (err != nil || now.Before(expires)) {
			return nil //nolint:nilerr // a record without a time does not expire
		}
		if !marker && records == limit {
			return errEnough
		}
		if !marker {
			records++
		}
		found[m.Subject()] = old{seq, !marker}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return 0, kind.Wrap("idempotency: expire", err)
	}
	removed := 0
	for subject, o := range found {
		if err := s.remove(ctx, subject, o.seq); err != nil {
			return removed, kind.Wrap("idempotency: expire", err)
		}
		if o.counts {
			removed++
		}
	}
	return removed, nil
}

// List implements [idempotency.Admin]. It reads the whole bucket, results included.
func (s *Idempotency) List(ctx context.Context, f idempotency.Filter, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	found, now := map[string]idempotency.Record{}, s.now() // by subject, because a record that changes during the scan is read twice
	err := s.bucket.scan(ctx, 1, false, func(_ uint64, m jetstream.Msg) error {
		delete(found, m.Subject())
		if isMarker(m.Headers()) {
			return nil
		}
		r, err := decode(m.Data())
		if err != nil {
			return fmt.Errorf("record %s: %w", m.Subject(), err)
		}
		if r.Compare(after) > 0 && f.Match(r, now) {
			r.Result = nil
			found[m.Subject()] = *r
		}
		return nil
	})
	if err != nil {
		return nil, kind.Wrap("idempotency: list", err)
	}
	list := slices.SortedFunc(maps.Values(found), func(a, b idempotency.Record) int { return a.Compare(b.ID) })
	return list[:min(len(list), max(limit, 0))], nil
}

// remove removes the messages of a key up to a revision, and keeps later ones.
func (s *Idempotency) remove(ctx context.Context, subject string, revision uint64) error {
	bucket, err := s.bucket.get(ctx)
	if err != nil {
		return err
	}
	return s.bucket.db.ask(ctx, func(ctx context.Context) error {
		return bucket.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(revision+1))
	})
}
