package audit

import (
	"context"
	"errors"
)

// Entry is one event as it is stored: the canonical JSON (RFC 8785) of the event with its place in the chain, without a
// line end, and the fields for a sink's indexes. Entries are read-only, and valid until the call that hands them over returns:
// a sink that keeps them longer makes copies.
type Entry struct {
	Event *Event
	Line  []byte
}

// Sink keeps entries. The [Log] calls it from one goroutine at a time.
type Sink interface {
	// Append stores entries in the given order and returns once they are durable. After an error it is not known which of
	// them were stored; the Log appends the same entries again. A sink that can do so recognises repetitions by the event
	// ID and stores each event once.
	Append(ctx context.Context, entries []Entry) error
	// Heads returns the last entry of every chain in the sink, ordered by chain ID.
	Heads(ctx context.Context) ([]Head, error)
	// Close flushes and releases resources. It does not wait for anything else.
	Close() error
}

// Segmenter is implemented by sinks that keep entries in segments that can be read, moved or deleted separately, such as the
// files of a rotated log. The Log holds a snapshot of every policy in each segment that uses it.
type Segmenter interface {
	// Segment begins a new segment if that is due, and returns the number of the segment of the next Append. The Log calls it
	// before it fills a batch.
	Segment(ctx context.Context) (uint64, error)
}

// Source reads entries back, in the order in which they were stored.
type Source interface {
	// Read calls f for each line after a cursor ("" for the beginning), until there are no more for now, f fails or ctx is
	// done. The cursor of a line is opaque, and valid for as long as the line is kept. The line is valid until f returns.
	Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error
}

// errEnough ends a reading whose caller needs no more lines.
var errEnough = errors.New("enough lines")

// Head is the end of a chain.
type Head struct {
	// The chain, one per writer.
	ChainID string `json:"chain_id"`
	// Place in the chain, from 1.
	Seq uint64 `json:"seq"`
	// SHA-256, hexadecimal, of the last event's canonical JSON without its own hash.
	Hash string `json:"hash"`
}

func headAt(e *Event) Head { return Head{ChainID: e.ChainID, Seq: e.Seq, Hash: e.Hash} }

// learn adds heads to those known by chain, unless a later one of the chain is known.
func learn(known map[string]Head, heads ...Head) {
	for _, h := range heads {
		if h.Seq > known[h.ChainID].Seq {
			known[h.ChainID] = h
		}
	}
}

// Tailer is implemented by sources that know where their last line is.
type Tailer interface {
	// Tail returns the cursor of the last line, or "" if there is none.
	Tail(ctx context.Context) (cursor string, err error)
}

// Tail returns the cursor of a source's last line, or "" if there is none. A source that is not a [Tailer] is read to its end.
func Tail(ctx context.Context, s Source) (cursor string, err error) {
	if t, ok := s.(Tailer); ok {
		return t.Tail(ctx)
	}
	err = s.Read(ctx, "", func(at string, _ []byte) error { cursor = at; return nil })
	return cursor, err
}
