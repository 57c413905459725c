package audit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/tenetdev/tenet/internal/argument"
)

// MemorySink keeps entries in memory, each event once. It is for tests. The zero value is empty and ready. Safe for
// concurrent use.
type MemorySink struct {
	mu    sync.Mutex
	lines [][]byte
	seen  map[string]bool
	heads map[string]Head
}

// Append implements [Sink].
func (s *MemorySink) Append(_ context.Context, entries []Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen, s.heads = map[string]bool{}, map[string]Head{}
	}
	for _, e := range entries {
		if s.seen[e.Event.ID] {
			continue
		}
		s.seen[e.Event.ID] = true
		s.lines = append(s.lines, slices.Clone(e.Line))
		s.heads[e.Event.ChainID] = headAt(e.Event)
	}
	return nil
}

// Heads implements [Sink].
func (s *MemorySink) Heads(context.Context) ([]Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedHeads(s.heads), nil
}

// Close does nothing.
func (s *MemorySink) Close() error { return nil }

// Read implements [Source].
func (s *MemorySink) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	next := 0
	if after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 {
			return fmt.Errorf("audit: cursor %q: want a number", after)
		}
		next = n
	}
	for {
		s.mu.Lock()
		var line []byte
		if next < len(s.lines) {
			line = s.lines[next]
		}
		s.mu.Unlock()
		if line == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		next++
		if err := f(strconv.Itoa(next), line); err != nil {
			return err
		}
	}
}

// Events returns the stored events in order. It panics on a line that is not an event; a [Log] never writes one.
func (s *MemorySink) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Event, 0, len(s.lines))
	for _, line := range s.lines {
		e, err := ParseLine(line)
		if err != nil {
			panic(err)
		}
		list = append(list, e)
	}
	return list
}

// SlogSink writes each entry as one log record: the event's type as the message, the members that people look for, and the
// whole line as "event". A logger does not report whether and when it stores a record, and it cannot be read back: the sink
// is for logs that are collected anyway.
type SlogSink struct {
	logger *slog.Logger
	level  slog.Level
}

// NewSlogSink logs entries at a level. A nil logger panics.
func NewSlogSink(logger *slog.Logger, level slog.Level) *SlogSink {
	argument.Need(logger != nil, "audit: NewSlogSink: the logger")
	return &SlogSink{logger: logger, level: level}
}

// Append implements [Sink].
func (s *SlogSink) Append(ctx context.Context, entries []Entry) error {
	if !s.logger.Enabled(ctx, s.level) {
		return nil
	}
	for _, e := range entries {
		s.logger.LogAttrs(ctx, s.level, string(e.Event.Type), attributesOf(e)...)
	}
	return nil
}

func attributesOf(e Entry) []slog.Attr {
	list := make([]slog.Attr, 0, 8)
	for _, a := range [...]struct{ name, value string }{
		{"key", e.Event.Key}, {"work_id", e.Event.WorkID}, {"decision", e.Event.Decision}, {"reason", string(e.Event.Reason)},
		{"action", e.Event.Action}, {"event_id", e.Event.ID}, {"event", string(e.Line)},
	} {
		if a.value != "" {
			list = append(list, slog.String(a.name, a.value))
		}
	}
	return list
}

// Heads implements [Sink]: a logger cannot be read, so there are none.
func (s *SlogSink) Heads(context.Context) ([]Head, error) { return nil, nil }

// Close does nothing.
func (s *SlogSink) Close() error { return nil }
