package command

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
)

// maxInput is the maximum number of bytes kept for further attempts.
const maxInput = 10 << 20

// Input is the input of a program, the same for every attempt. Each attempt reads a regular file again from its first offset.
// Other input is passed on at once and kept for further attempts, up to 10 MiB.
//
// A read cannot be interrupted: a source that blocks keeps one goroutine until the source or the process ends.
type Input struct {
	source io.Reader
	file   *os.File // the source, if programs can read it directly
	offset int64    // where attempts begin to read the file; -1 if it is read once
	limit  int      // of kept, in bytes

	begin sync.Once
	mu    sync.Mutex
	kept  []byte
	err   error         // why nothing follows kept: io.EOF, ErrInputTooLong or the error of the source
	more  chan struct{} // closed when kept or err change
}

// NewInput returns the input from r for at most the given number of attempts. For one attempt a file is not kept, and the size is
// unlimited. If r is nil, a terminal or another device, there is no input: programs run in their own process group, which must
// not read from the terminal.
func NewInput(r io.Reader, attempts int) *Input {
	file, isFile := r.(*os.File)
	if r == nil || isFile && file == nil {
		return nil
	}
	in := &Input{source: r, limit: maxInput, more: make(chan struct{})}
	if attempts == 1 {
		in.limit = math.MaxInt
	}
	if !isFile {
		return in
	}
	info, err := file.Stat()
	switch {
	case err != nil || info.Mode()&os.ModeCharDevice != 0:
		return nil
	case info.Mode().IsRegular():
		in.file = file
		in.offset, _ = file.Seek(0, io.SeekCurrent)
	case attempts == 1:
		in.file, in.offset = file, -1
	}
	return in
}

// feeder passes the input to one attempt. Its zero value passes nothing.
type feeder struct {
	in          *Input
	read, write *os.File
	done        chan struct{}
	ended       sync.WaitGroup
}

// attach connects the input to cmd before it starts.
func (in *Input) attach(cmd *exec.Cmd) (*feeder, error) {
	f := &feeder{}
	switch {
	case in == nil:
		return f, nil
	case in.file != nil && in.offset < 0:
		cmd.Stdin = in.file
		return f, nil
	case in.file != nil:
		cmd.Stdin = in.file
		_, err := in.file.Seek(in.offset, io.SeekStart)
		return f, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return f, err
	}
	cmd.Stdin = read
	return &feeder{in: in, read: read, write: write, done: make(chan struct{})}, nil
}

// inputError says why the input could not be read in full.
type inputError struct{ err error }

func (e *inputError) Error() string { return "input: " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// start begins to feed a started command. If the input fails, cancel ends the attempt: the program must not take a part of the
// input for the whole.
func (f *feeder) start(cancel context.CancelCauseFunc) {
	if f.in == nil {
		return
	}
	_ = f.read.Close() // the command has its own copy
	f.in.begin.Do(func() { go f.in.pump() })
	f.ended.Go(func() {
		defer f.write.Close()
		if err := f.run(); err != nil && !errors.Is(err, io.EOF) {
			cancel(&inputError{err})
			<-f.done // closing the pipe earlier would signal the end of the input
		}
	})
}

// run copies the input until it ends, the command stops reading, or the attempt is over.
func (f *feeder) run() error {
	for offset := 0; ; {
		chunk, more, err := f.in.from(offset)
		if len(chunk) == 0 && err != nil {
			return err
		}
		if len(chunk) == 0 {
			select {
			case <-more:
				continue
			case <-f.done:
				return nil
			}
		}
		n, unread := f.write.Write(chunk)
		if unread != nil { // a program may leave its input unread
			return io.EOF
		}
		offset += n
	}
}

// stop stops feeding and waits for its goroutine.
func (f *feeder) stop() {
	if f.in == nil {
		return
	}
	close(f.done)
	_ = f.read.Close()
	_ = f.write.Close() // also wakes a write that waits for the command
	f.ended.Wait()
}

// from returns the kept input from an offset on, and either why nothing follows it or a channel that closes when more arrives.
func (in *Input) from(offset int) ([]byte, <-chan struct{}, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept[offset:], in.more, in.err
}

// pump reads the source to its end.
func (in *Input) pump() {
	chunk := make([]byte, 64<<10)
	for {
		n, err := in.source.Read(chunk)
		if in.keep(chunk[:n], err) {
			return
		}
	}
}

// keep appends a chunk and reports whether the input has ended.
func (in *Input) keep(chunk []byte, err error) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.kept = append(in.kept, chunk...)
	in.err = err
	if err == nil && len(in.kept) > in.limit {
		in.err = ErrInputTooLong
	}
	close(in.more)
	in.more = make(chan struct{})
	return in.err != nil
}
