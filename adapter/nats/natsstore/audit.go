package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/uuidv7"
)

// Names of the audit log on a NATS system.
const (
	AuditStream  = "TENET_AUDIT_V1"
	AuditSubject = "tenet.audit.v1." // followed by the event's type
)

var (
	_ audit.Sink   = (*Audit)(nil)
	_ audit.Source = (*Audit)(nil)
	_ audit.Tailer = (*Audit)(nil)
)

// Audit keeps audit events in a stream, one message per event; the message's data is the event's line. It is safe for
// concurrent use, and any number of processes may append to one stream.
type Audit struct {
	db     *DB
	closed atomic.Bool

	mu    sync.Mutex // guards the last result of Heads
	heads []audit.Head
	at    uint64
}

func auditConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: AuditStream, Subjects: []string{AuditSubject + ">"}, Description: "audit log of Tenet",
		MaxMsgs: -1, MaxBytes: -1, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: o.Replicas,
		Duplicates: o.Duplicates, DenyDelete: true, DenyPurge: true, AllowAtomicPublish: true,
		// AllowDirect stays off: heads come from the leader.
	}
}

const (
	maxBatch      = 1000 // the servers' default limit
	headsAtHeader = "Tenet-Heads-At"

	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// Append implements [audit.Sink]. It sends entries in atomic batches (NATS 2.12 and newer), so that an interruption cannot
// leave a gap that a repetition would fill out of order. If the server does not support batches, or refuses one because it has
// stored some of its events already or has too many batches at once, Append sends the entries one by one and waits for each
// acknowledgement.
func (a *Audit) Append(ctx context.Context, entries []audit.Entry) error {
	if a.closed.Load() {
		return errors.New("nats: audit: append: the sink is closed")
	}
	open, err := a.db.log.get(ctx)
	if err != nil {
		return kind.Wrap("audit: append", err)
	}
	for batch := range slices.Chunk(entries, maxBatch) {
		if err := a.append(ctx, batch, open.CachedInfo().Config.AllowAtomicPublish); err != nil {
			return kind.Wrap("audit: append", err)
		}
	}
	return nil
}

func (a *Audit) append(ctx context.Context, entries []audit.Entry, atomic bool) error {
	if atomic && len(entries) > 1 {
		err := a.appendBatch(ctx, entries)
		if e, ok := errors.AsType[*jetstream.APIError](err); !ok || !slices.Contains(batchRefusals, e.ErrorCode) {
			return err
		}
	}
	for _, e := range entries {
		if err := a.appendOne(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// batchRefusals are the error codes of batches of which nothing was stored and whose entries can be sent one by one.
var batchRefusals = []jetstream.ErrorCode{
	10158, // one of the events is being stored
	10174, // the stream does not allow batches
	10176, // the start of the batch was lost or refused
	10199, // larger than the server allows
	10201, // one of the events is stored already
	10210, // too many batches at once
}

func (a *Audit) appendOne(ctx context.Context, e audit.Entry) error {
	ctx, cancel := a.db.bounded(ctx)
	defer cancel()
	_, err := a.db.js.PublishMsg(ctx, a.message(e), jetstream.WithRetryAttempts(0))
	return err
}

// appendBatch sends entries as one atomic batch, without waiting in between. The server answers the last message.
func (a *Audit) appendBatch(ctx context.Context, entries []audit.Entry) error {
	id := uuidv7.New(time.Now())
	last := len(entries) - 1
	for i, e := range entries {
		m := a.message(e)
		m.Header.Set(batchIDHeader, id)
		m.Header.Set(batchSeqHeader, strconv.Itoa(i+1))
		if i == last {
			m.Header.Set(batchCommitHeader, "1")
			return a.commit(ctx, m, len(entries))
		}
		if err := a.db.conn.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// commit sends the last message of a batch and returns when the whole batch is stored.
func (a *Audit) commit(ctx context.Context, m *nats.Msg, size int) error {
	ctx, cancel := a.db.bounded(ctx)
	defer cancel()
	reply, err := a.db.conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		Count int                 `json:"count"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return fmt.Errorf("%w: %w", jetstream.ErrInvalidJSAck, err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	if answer.Count != size {
		return fmt.Errorf("the server has stored %d of %d entries: %w", answer.Count, size, jetstream.ErrInvalidJSAck)
	}
	return nil
}

func (a *Audit) message(e audit.Entry) *nats.Msg {
	m := nats.NewMsg(AuditSubject + string(e.Event.Type))
	m.Data = e.Line
	m.Header.Set(jetstream.MsgIDHeader, e.Event.ID)
	m.Header.Set(jetstream.ExpectedStreamHeader, AuditStream)
	if e.Event.Type == audit.ChainOpened {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.at > 0 && slices.Equal(a.heads, e.Event.Heads) {
			m.Header.Set(headsAtHeader, strconv.FormatUint(a.at, 10))
		}
	}
	return m
}

// Read implements [audit.Source]. Cursors are sequence numbers of the stream. An event that was appended again after the
// server's window for duplicates is read twice.
func (a *Audit) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	var from uint64
	if after != "" {
		seq, err := strconv.ParseUint(after, 10, 64)
		if err != nil {
			return fmt.Errorf("nats: audit: invalid cursor %q; pass a cursor from Read, or \"\"", after)
		}
		from = seq + 1
	}
	var own error
	err := a.db.log.scan(ctx, from, false, func(seq uint64, m jetstream.Msg) error {
		own = f(strconv.FormatUint(seq, 10), m.Data())
		return own
	})
	if err == nil || own != nil || err == ctx.Err() {
		return err
	}
	return kind.Wrap("audit: read", err)
}

// Tail implements [audit.Tailer].
func (a *Audit) Tail(ctx context.Context) (cursor string, err error) {
	_, last, err := a.db.log.end(ctx)
	if last > 0 {
		cursor = strconv.FormatUint(last, 10)
	}
	return cursor, kind.Wrap("audit: tail", err)
}

// Heads implements [audit.Sink]. It starts from the heads in the last chain_opened event, if that event says up to which
// message they were taken, and reads the messages after it; otherwise it reads the whole stream.
func (a *Audit) Heads(ctx context.Context) ([]audit.Head, error) {
	heads, at, err := a.lastHeads(ctx)
	if err != nil {
		return nil, kind.Wrap("audit: heads", err)
	}
	err = a.db.log.scan(ctx, at+1, false, func(seq uint64, m jetstream.Msg) error {
		var h struct {
			ChainID string `json:"chain_id"`
			Seq     uint64 `json:"seq"`
			Hash    string `json:"hash"`
		}
		if err := json.Unmarshal(m.Data(), &h); err != nil {
			return fmt.Errorf("message %d is not an event; run tenet audit verify for details: %w", seq, err)
		}
		at = seq
		if h.ChainID != "" && h.Seq > heads[h.ChainID].Seq { // a duplicate is not the head
			heads[h.ChainID] = audit.Head(h)
		}
		return nil
	})
	if err != nil {
		return nil, kind.Wrap("audit: heads", err)
	}
	list := slices.SortedFunc(maps.Values(heads), func(x, y audit.Head) int { return strings.Compare(x.ChainID, y.ChainID) })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heads, a.at = slices.Clone(list), at
	return list, nil
}

// lastHeads returns the heads in the last chain_opened event, and the sequence number of the last message that they cover. It
// returns no heads and 0 if they are not known.
func (a *Audit) lastHeads(ctx context.Context) (map[string]audit.Head, uint64, error) {
	heads := map[string]audit.Head{}
	open, err := a.db.log.get(ctx)
	if err != nil {
		return nil, 0, err
	}
	var m *jetstream.RawStreamMsg
	err = a.db.ask(ctx, func(ctx context.Context) (err error) {
		m, err = open.GetLastMsgForSubject(ctx, AuditSubject+string(audit.ChainOpened))
		return err
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return heads, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	at, err := strconv.ParseUint(m.Header.Get(headsAtHeader), 10, 64)
	if err != nil || at >= m.Sequence {
		return heads, 0, nil //nolint:nilerr // another program wrote the event: the whole stream is read
	}
	var event struct {
		Heads []audit.Head `json:"heads"`
	}
	if err := json.Unmarshal(m.Data, &event); err != nil {
		return heads, 0, nil //nolint:nilerr // the same
	}
	for _, h := range event.Heads {
		heads[h.ChainID] = h
	}
	return heads, at, nil
}

// Close implements [audit.Sink]: later calls of Append fail. All appended events are stored already. The [DB] keeps its
// connection.
func (a *Audit) Close() error {
	a.closed.Store(true)
	return nil
}
