package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/internal/wait"
)

const (
	outboxSegment = 16 << 20        // small enough that forwarded lines are soon deleted
	outboxBatch   = 512             // lines forwarded at a time
	headsLimit    = 2 * time.Second // for a sink that is asked at Open and may be down
)

// outbox is the sink of a log in Outbox mode: a file, whose lines a goroutine forwards to the real sink. A note beside the file
// holds the position up to which lines were forwarded; after a crash some may be forwarded again, under the same event IDs.
type outbox struct {
	file   *FileSink
	sink   Sink
	note   string // path of the note
	report func(detail string)

	wake    wait.Signal   // something was appended
	closing chan struct{} // closed by close: end when everything is forwarded or the sink fails
	closed  sync.Once
	done    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc
	failing atomic.Pointer[error]

	mu    sync.Mutex
	at    position      // behind the last forwarded line
	stale bool          // the note does not say so yet
	moved chan struct{} // closed when at moves
	heads map[string]Head
}

// forwarded is the form of the note.
type forwarded struct {
	Cursor string `json:"cursor"`
	Heads  []Head `json:"heads"` // of the sink, as far as known here
}

// openOutbox opens an outbox, begins to forward its lines, and returns the heads of the known chains.
func openOutbox(ctx context.Context, dir string, sink Sink, report func(string)) (*outbox, []Head, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("audit: outbox: %w", err)
	}
	file, err := OpenFile(filepath.Join(dir, "outbox.jsonl"), FileOptions{MaxSize: outboxSegment})
	if err != nil {
		return nil, nil, fmt.Errorf("audit: outbox: %w", err)
	}
	o := &outbox{
		file: file, sink: sink, note: filepath.Join(dir, "forwarded.json"), report: report, wake: wait.NewSignal(),
		closing: make(chan struct{}), done: make(chan struct{}), moved: make(chan struct{}), heads: map[string]Head{},
	}
	if err := o.restore(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("audit: outbox: %w", err), file.Close())
	}
	known := maps.Clone(o.heads)
	learn(known, sortedHeads(file.heads)...)
	o.ctx, o.cancel = context.WithCancel(context.Background())
	go o.run()
	return o, sortedHeads(known), nil
}

// restore reads the note, and asks the sink for its heads if the sink answers.
func (o *outbox) restore(ctx context.Context) error {
	raw, err := files.Read(o.note, maxState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		var n forwarded
		if err = json.Unmarshal(raw, &n); err == nil {
			o.at, err = parsePosition(n.Cursor)
		}
		if err != nil {
			return fmt.Errorf("%s: damaged; delete it to have the whole outbox forwarded again: %w", o.note, err)
		}
		learn(o.heads, n.Heads...)
		if end := o.file.end(); end.before(o.at) { // the file is older than the note, for example restored from a backup
			o.report(fmt.Sprintf("the outbox ends at %v, before %v, up to which it was forwarded; what is appended is forwarded from its end", end, o.at))
			if err := o.advance(end, nil); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, headsLimit)
	defer cancel()
	if heads, err := o.sink.Heads(ctx); err == nil {
		learn(o.heads, heads...)
	}
	return nil
}

// Append implements appender.
func (o *outbox) Append(ctx context.Context, entries []Entry) error {
	if err := o.file.Append(ctx, entries); err != nil {
		return fmt.Errorf("audit: outbox: %w", err)
	}
	o.wake.Send()
	return nil
}

// Segment implements [Segmenter]: it is the file's. The sink gets more snapshots than it needs.
func (o *outbox) Segment(ctx context.Context) (uint64, error) { return o.file.Segment(ctx) }

func (o *outbox) run() {
	defer close(o.done)
	closing := o.closing
	for backoff := newBackoff(); ; {
		err := o.forward()
		if err == nil {
			o.failing.Store(nil)
			backoff.Reset()
			if closing == nil {
				return
			}
			select {
			case <-o.wake:
			case <-closing:
				closing = nil // once more, for the last lines
			case <-o.ctx.Done():
				return
			}
			continue
		}
		if o.failing.Swap(&err) == nil {
			o.report("the outbox is not forwarded: " + err.Error())
		}
		if closed, err := wait.ForSignal(o.ctx, backoff.Failed(), o.closing); closed || err != nil {
			return
		}
	}
}

// forward appends to the sink all stored lines that were not forwarded yet. The sink may begin a segment where the file began
// one, because snapshots follow there.
func (o *outbox) forward() error {
	end, from := o.file.end(), o.position()
	var events []Event
	var lines [][]byte
	var unnoted error // of the note; it holds nothing back
	last := from
	send := func() error {
		if len(lines) > 0 {
			entries := make([]Entry, len(lines))
			for i := range lines {
				entries[i] = Entry{Event: &events[i], Line: lines[i]}
			}
			if err := appendOnce(o.ctx, o.sink, entries); err != nil {
				return err
			}
		}
		unnoted = o.advance(last, events)
		events, lines = events[:0], lines[:0]
		return nil
	}
	after := ""
	if from.segment > 0 {
		after = from.String()
	}
	err := o.file.Read(o.ctx, after, func(cursor string, line []byte) error {
		at, err := parsePosition(cursor)
		if err != nil { // not reached in tests: the file's reader has made the cursor
			return err
		}
		if end.before(at) {
			return errEnough // what follows is not stored yet
		}
		e, err := ParseLine(line)
		if err != nil { // not written here: what is appended has been encoded by the log
			return errors.Join(fmt.Errorf("outbox: at %s: %w", cursor, err), send()) // it does not hold back those before it
		}
		if s, ok := o.sink.(Segmenter); ok && at.segment != last.segment {
			if err := send(); err != nil {
				return err
			}
			if _, err := s.Segment(o.ctx); err != nil {
				return err
			}
		}
		events, lines, last = append(events, e), append(lines, append([]byte(nil), line...)), at
		if len(lines) < outboxBatch {
			return nil
		}
		return send()
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	return unnoted
}

func (o *outbox) position() position {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at
}

// advance notes what was forwarded, and deletes files that were forwarded completely. Where the note cannot be written, for
// example because the disk is full, only a restart forwards these lines again.
func (o *outbox) advance(at position, events []Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at == o.at && !o.stale {
		return nil
	}
	for i := range events {
		learn(o.heads, headAt(&events[i]))
	}
	if at.segment > o.at.segment {
		o.file.removeBefore(at.segment) // first, as it makes room for the note
	}
	o.at, o.stale = at, true
	close(o.moved)
	o.moved = make(chan struct{})
	heads := sortedHeads(o.heads)
	raw, err := json.Marshal(forwarded{Cursor: at.String(), Heads: heads[max(len(heads)-mostHeads, 0):]})
	if err != nil { // not reached in tests: strings and numbers always have a JSON form
		return err
	}
	if err := files.Write(o.note, raw); err != nil {
		return err
	}
	o.stale = false
	return nil
}

// wait waits until the lines that are in the outbox now have been forwarded.
func (o *outbox) wait(ctx context.Context) error {
	end := o.file.end()
	for {
		o.mu.Lock()
		done, moved := !o.at.before(end), o.moved
		o.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-o.done:
			return ErrClosed
		case <-ctx.Done():
			if err := o.failing.Load(); err != nil {
				return errors.Join(context.Cause(ctx), *err)
			}
			return context.Cause(ctx)
		}
	}
}

// close forwards until everything is forwarded, the sink fails or ctx ends. The rest stays for the next Open. A nil outbox
// needs no close.
func (o *outbox) close(ctx context.Context) error {
	if o == nil {
		return nil
	}
	o.closed.Do(func() { close(o.closing) })
	select {
	case <-o.done:
	case <-ctx.Done():
		o.cancel()
		<-o.done
	}
	o.cancel()
	return o.file.Close()
}
