package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/pipeline"
)

// SinkOptions configure a sink. The zero value works.
type SinkOptions struct {
	// Format defaults to the format of the path's extension, as for sources.
	Format Format
	// Append adds to the file itself. [OpenSink] refuses a CSV file that ends inside quotes. Without it the sink writes path.part,
	// which Close renames to path.
	Append bool
	// Replace lets Close replace an existing file. Without it [OpenSink] returns an error for such a file, and so does Close if
	// the file has appeared since; path.part then keeps the records.
	Replace bool
	// Envelope writes each transaction with its ID, metadata, correlation, parent and attempts: for dead letters. A payload is read
	// back byte for byte; one that is not JSON in one line is written in base64. Only for JSONL.
	Envelope bool
	// Columns of CSV. Default: the header of an existing file, or else the members of the first payload in their order.
	Columns []string
	// Comma separates the columns of CSV: an ASCII character other than a quote or line break. Default ','.
	Comma byte
	// NoSync makes Dispatch return without a flush to the disk: the data survive a crash of the process but not of the
	// machine. Close flushes in either case.
	NoSync bool
}

// ErrClosed is returned by a closed sink.
var ErrClosed = errors.New("file: the sink is closed")

// Sink writes transactions as lines. Dispatch is safe for concurrent use; concurrent calls share one write and one flush.
// The transactions of one goroutine are written in its order.
type Sink struct {
	path string
	part string // the file to write
	o    SinkOptions
	form form
	turn chan struct{} // the goroutine that fills it writes

	mu        sync.Mutex
	gathering *group
	closed    bool

	// Guarded by turn.
	file   *os.File
	size   int64
	broken error // why the file cannot be continued
}

// group is a number of transactions that are written together.
type group struct {
	data    []byte
	written bool
	err     error
	done    chan struct{}
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// OpenSink makes a sink. It continues the path.part of an earlier sink that was not closed.
func OpenSink(path string, o SinkOptions) (*Sink, error) {
	if path == "" {
		return nil, errors.New("file: OpenSink: the path is empty")
	}
	format, comma, err := layout(path, o.Format, o.Comma, o.Envelope)
	if err != nil {
		return nil, err
	}
	o.Format, o.Comma = format, comma
	s := &Sink{path: path, part: path + ".part", o: o, turn: make(chan struct{}, 1), gathering: newGroup()}
	s.form = lines{envelope: o.Envelope}
	if format == CSV {
		columns, err := header(o.Columns)
		if err != nil {
			return nil, fmt.Errorf("file: %s: %w", path, err)
		}
		s.form = &table{comma: o.Comma, names: columns}
	}
	if o.Append {
		if s.part, err = target(path); err != nil {
			return nil, fmt.Errorf("file: %w", err)
		}
	} else if err := s.vacant(); err != nil {
		return nil, fmt.Errorf("file: %s: %w", path, err)
	}
	if s.file, err = openLocked(s.part); err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	if err := s.resume(); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("file: %s: %w", s.part, err)
	}
	return s, nil
}

// vacant returns an error if the sink's path exists and must not, or cannot, be replaced.
func (s *Sink) vacant() error {
	if s.o.Replace {
		return files.Replaceable(s.path)
	}
	if _, err := os.Lstat(s.path); err == nil {
		return fmt.Errorf("%w; append to it, or allow it to be replaced", fs.ErrExist)
	}
	return nil
}

// target resolves the symbolic links of a file that is appended to.
func target(path string) (string, error) {
	to, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	return to, err
}

// resume finds the end of an existing file. Half a record, which only a crash leaves, is cut off; if the file is not the
// sink's own, its last line is completed with a line break instead.
func (s *Sink) resume() error {
	end, err := s.form.resume(s.file, s.o.Append)
	if err != nil {
		return err
	}
	s.size = end
	if !s.o.Append {
		return s.file.Truncate(end)
	}
	last := []byte{'\n'}
	if end > 0 {
		if _, err := s.file.ReadAt(last, end-1); err != nil {
			return err
		}
	}
	if last[0] == '\n' {
		return nil
	}
	n, err := s.file.WriteAt([]byte{'\n'}, end)
	s.size += int64(n)
	return err
}

// Dispatch implements pipeline.Sink. It returns when the transaction is in the file, and on the disk unless the options say
// otherwise. A payload that cannot be written is an error that is permanent.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	if t == nil {
		return errors.New("file: Dispatch: the transaction is nil")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	put, err := s.form.encode(t)
	if err != nil {
		return classify.Permanent(fmt.Errorf("file: transaction %s: %w", t.ID(), err))
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	g := s.gathering
	g.data = append(append(g.data, put...), '\n')
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	default: // another one writes; not asking for ctx.Done() before saves a third of the time
		select {
		case <-g.done:
			return g.err
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err() // it will be written all the same
		}
	}
	s.write(g)
	<-s.turn
	return g.err
}

// write writes a group, unless the goroutine before this one has done so. The caller has the turn.
func (s *Sink) write(g *group) {
	if g.written {
		return
	}
	if !s.o.NoSync {
		runtime.Gosched() // a flush is expensive: let other goroutines join it
	}
	s.mu.Lock()
	if g == s.gathering {
		s.gathering = newGroup()
	}
	s.mu.Unlock()
	g.written, g.err = true, s.flush(g.data)
	g.data = nil
	close(g.done)
}

// flush appends to the file. It undoes a partial write.
func (s *Sink) flush(data []byte) error {
	if s.broken != nil {
		return s.broken
	}
	if s.size == 0 {
		data = append(s.form.head(), data...)
	}
	n, err := s.file.WriteAt(data, s.size)
	if err == nil && !s.o.NoSync {
		err = files.SyncData(s.file)
	}
	if err == nil {
		s.size += int64(n)
		return nil
	}
	err = fmt.Errorf("file: %w", err)
	if cut := s.file.Truncate(s.size); cut != nil {
		s.broken = fmt.Errorf("%w (and it cannot be taken back: %w)", err, cut)
	}
	return err
}

// Check implements pipeline.Checker.
func (s *Sink) Check(context.Context) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.broken
}

// Close flushes the file and renames it to its path. Closing again does nothing.
func (s *Sink) Close() error { return s.end(true) }

// Suspend flushes and closes the file without renaming it: the next sink of the same path continues it. Use it for runs that
// ended before their input did.
func (s *Sink) Suspend() error { return s.end(false) }

func (s *Sink) end(publish bool) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	g := s.gathering
	s.mu.Unlock()
	s.write(g) // its dispatchers wait for the turn or gave up; if there are none, this writes the head
	err := errors.Join(g.err, s.broken)
	if err = errors.Join(err, s.file.Sync()); err == nil && publish && !s.o.Append {
		if err = s.vacant(); err == nil {
			err = files.Rename(s.part, s.path)
		}
	}
	if err = errors.Join(err, s.file.Close()); err != nil {
		return fmt.Errorf("file: %s: %w", s.path, err)
	}
	return nil
}

// form is how transactions are written.
type form interface {
	// encode writes a transaction without the line break of its last line. It is safe for concurrent use.
	encode(t *pipeline.Transaction) ([]byte, error)
	// head is the beginning of a file.
	head() []byte
	// resume finds the end of the last whole record; all is for a file that is appended to, which is not checked.
	resume(file *os.File, all bool) (end int64, err error)
}

// lines are JSONL.
type lines struct{ envelope bool }

func (l lines) head() []byte { return nil }

func (l lines) resume(file *os.File, all bool) (int64, error) {
	if !all {
		return files.EndOfLines(file)
	}
	info, err := file.Stat()
	return sizeOf(info), err
}

func sizeOf(info fs.FileInfo) int64 {
	if info == nil {
		return 0
	}
	return info.Size()
}
