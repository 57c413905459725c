package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/files"
)

// FileOptions of a [FileSink]. The zero value rotates at 256 MiB and makes every batch durable.
type FileOptions struct {
	// MaxSize is the size, in bytes, at which the sink starts a new file. Default 256 MiB; negative means never. While events
	// arrive without a pause, a file may exceed it by 16 MiB and a batch; so it does behind the outbox of a log.
	MaxSize int64
	// Sync says when appended entries are made durable: 0 means before Append returns, a positive duration at most that much
	// later. A negative one never syncs, which leaves it to the operating system. Only 0 loses nothing in a power failure.
	Sync time.Duration
}

const defaultMaxSize = 256 << 20

// FileSink keeps entries as lines of JSON in a file, one event per line. At MaxSize it renames the file (audit.jsonl becomes
// audit-000001.jsonl, the next audit-000002.jsonl) and starts a new one; old files may be moved away or deleted. Two more
// files are in the same directory: audit.heads.json, the heads of the chains in the files before the current one and
// perhaps in it, and audit.lock. Only the owner can read the files.
//
// Two logs in one directory need names that differ in more than the extension, or in a hyphen and a number of six digits or more
// at the end: they would share files.
//
// A lock keeps other writers out, in this process and in others. Opening the file cuts off an unfinished line that a crash
// left behind; its Append never returned. FileSink is safe for concurrent use.
type FileSink struct {
	names   fileNames
	options FileOptions
	lock    *os.File

	mu      sync.Mutex
	file    *os.File // nil between the end of a segment and the first append to the next
	size    int64    // of the whole lines in it
	tail    position // the end of the last line
	segment uint64
	heads   map[string]Head
	unsaved bool // the heads of the earlier segments, because the disk was full or the process died
	buffer  []byte
	timer   *time.Timer // runs while something is not durable yet
	failed  error       // of a background sync
	closed  bool
}

// OpenFile opens a file for appending, and creates it if it does not exist; its directory must exist. It refuses a file that
// does not begin like an event, and leaves it unchanged. If another FileSink has the file open, the error wraps [ErrLocked].
func OpenFile(path string, o FileOptions) (*FileSink, error) {
	if path == "" {
		return nil, errors.New("audit: OpenFile: the path is empty")
	}
	o.MaxSize = cmp.Or(o.MaxSize, defaultMaxSize)
	s := &FileSink{names: namesOf(path), options: o}
	var err error
	if s.lock, err = files.OpenLocked(s.names.lock()); err != nil {
		if errors.Is(err, files.ErrLocked) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("audit: %s: %w", path, err)
	}
	if err = s.restore(); err != nil {
		return nil, errors.Join(fmt.Errorf("audit: %s: %w", path, err), s.Close())
	}
	return s, nil
}

// restore finds the current segment, cuts off an unfinished line, and collects the heads.
func (s *FileSink) restore() error {
	n, err := s.names.current()
	if err != nil {
		return err
	}
	saved, err := s.names.saved()
	if err != nil { // not reached in tests: current has read the same file just before
		return err
	}
	if saved.Ended && saved.Segment == n && !fileExists(s.names.path) { // the process died then, and the file has been moved away
		n++ // its number is not used again
		if err = s.names.saveHeads(savedHeads{Segment: n, Heads: saved.Heads}); err != nil {
			return err
		}
	}
	s.segment, s.unsaved = n, saved.Segment < n
	if err = s.openSegment(); err != nil {
		return err
	}
	if err = checkContent(s.file); err != nil { // before anything is cut off
		return err
	}
	end, err := files.EndOfLines(s.file)
	if err != nil { // not reached in tests: the disk fails between two reads
		return err
	}
	if err = s.file.Truncate(end); err != nil { // not reached in tests: the disk fails
		return err
	}
	s.size = end
	s.heads, s.tail, err = s.names.scan()
	return err
}

func (s *FileSink) openSegment() error {
	file, err := files.OpenPrivate(s.names.path)
	if err != nil {
		return err
	}
	s.file, s.size = file, 0
	return files.SyncDir(s.names.path)
}

// Segment implements [Segmenter].
func (s *FileSink) Segment(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return s.segment, os.ErrClosed
	case s.file == nil || s.options.MaxSize < 0 || s.size < s.options.MaxSize:
		return s.segment, nil
	}
	if err := s.file.Sync(); err != nil {
		return s.segment, err
	}
	if err := s.saveHeads(true); err != nil { // first, as the file may be moved away once it is renamed
		return s.segment, err
	}
	if err := os.Rename(s.names.path, s.names.rotated(s.segment)); err != nil {
		return s.segment, err
	}
	s.file.Close()
	s.file, s.size = nil, 0
	s.segment++
	return s.segment, s.saveHeads(false)
}

// saveHeads saves the heads. ended says that the file of the segment is renamed next, to the name with its number.
func (s *FileSink) saveHeads(ended bool) error {
	err := s.names.saveHeads(savedHeads{Segment: s.segment, Ended: ended, Heads: sortedHeads(s.heads)})
	s.unsaved = err != nil
	return err
}

// Append implements [Sink].
func (s *FileSink) Append(_ context.Context, entries []Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	if err := s.failed; err != nil {
		s.failed = nil
		return err
	}
	if s.unsaved { // the earlier segments may be moved away once another follows them
		if err := s.saveHeads(false); err != nil {
			return err
		}
	}
	if s.file == nil {
		if err := s.openSegment(); err != nil {
			return err
		}
	}
	s.buffer = s.buffer[:0]
	for _, e := range entries {
		s.buffer = append(append(s.buffer, e.Line...), '\n')
	}
	if err := s.write(); err != nil {
		// A reader may see part of these entries although they are not stored; the next append begins where this one did.
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(len(s.buffer))
	s.tail = position{s.segment, s.size}
	for i, e := range entries {
		if i+1 == len(entries) || entries[i+1].Event.ChainID != e.Event.ChainID {
			s.heads[e.Event.ChainID] = headAt(e.Event)
		}
	}
	return nil
}

func (s *FileSink) write() error {
	if _, err := s.file.WriteAt(s.buffer, s.size); err != nil {
		return err
	}
	switch {
	case s.options.Sync == 0:
		return s.file.Sync()
	case s.options.Sync > 0 && s.timer == nil:
		s.timer = time.AfterFunc(s.options.Sync, s.syncInBackground)
	}
	return nil
}

// syncInBackground makes durable what was appended since the timer was set. The next Append returns its error.
func (s *FileSink) syncInBackground() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if s.file != nil {
		s.failed = s.file.Sync()
	}
}

// Heads implements [Sink].
func (s *FileSink) Heads(context.Context) ([]Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sortedHeads(s.heads), nil
}

// Read implements [Source]. It may run while the file is appended to.
func (s *FileSink) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	return (&FileSource{names: s.names}).Read(ctx, after, f)
}

// end returns the position after everything that is stored.
func (s *FileSink) end() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail
}

// Close makes everything durable and closes the file. Closing twice is not an error.
func (s *FileSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	err := s.failed
	if s.file != nil {
		err = errors.Join(err, s.file.Sync(), s.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// beginnings are how lines may begin: every event has a chain_id, before which only these members stand.
var beginnings = [][]byte{
	[]byte(`{"action":`), []byte(`{"actor":`), []byte(`{"attempt_number":`), []byte(`{"attributes":`), []byte(`{"budget_allowed":`),
	[]byte(`{"budget_reason":`), []byte(`{"chain_id":`),
}

// checkContent returns an error for a file that is not an audit log. A file that begins with a block of zeros may be one: a crash
// can leave them behind.
func checkContent(f *os.File) error {
	first := make([]byte, 512)
	n, err := f.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	first = first[:n]
	if len(bytes.TrimLeft(first, "\x00")) == 0 {
		return nil
	}
	for _, b := range beginnings {
		if n := min(len(b), len(first)); bytes.Equal(b[:n], first[:n]) {
			return nil
		}
	}
	return errors.New("the file does not hold audit events; use another file")
}

// removeBefore deletes the files of the segments before one. It ignores errors.
func (s *FileSink) removeBefore(segment uint64) {
	list, err := s.names.ended()
	if err != nil {
		return
	}
	for _, n := range list {
		if n < segment {
			_ = os.Remove(s.names.rotated(n)) // the next call tries again
		}
	}
}
