package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
)

// maxInput is how much input is kept for further attempts.
const maxInput = 10 << 20

// Input is what a program reads, the same for every attempt. A regular file is read again from where it stood. Anything
// else is kept while it is handed on, up to 10 MiB, so that the first attempt need not wait for its end.
//
// Reading is never cut short: a source that blocks keeps one goroutine until it ends or the process does.
type Input struct {
	source io.Reader
	file   *os.File // the source, where programs can read it by themselves
	offset int64    // where a file that is read again stood; -1 for what is read once

	begin sync.Once
	mu    sync.Mutex
	kept  []byte
	err   error         // why nothing follows kept: io.EOF, ErrInputTooLong or the source's error
	more  chan struct{} // closed when kept or err change
}

// NewInput returns the input that is read from r, for at most the given number of attempts. For one attempt nothing is kept
// and the size is not bounded. If r is nil, a terminal or another device, there is no input: programs run in their own
// process group, which must not read from the terminal.
func NewInput(r io.Reader, attempts int) *Input {
	file, isFile := r.(*os.File)
	if r == nil || isFile && file == nil {
		return nil
	}
	in := &Input{source: r, more: make(chan struct{})}
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

// feeder hands the input to one attempt. Its zero value feeds nothing.
type feeder struct {
	in          *Input
	read, write *os.File
	done        chan struct{}
	ended       sync.WaitGroup
}

// attach makes the input that of cmd, which is about to be started.
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

// inputError is input that cannot be had in full.
type inputError struct{ err error }

func (e *inputError) Error() string { return "input: " + e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// start begins to feed the command once it has been started. cancel ends the attempt where the input fails: a part of it
// must not pass for the whole.
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
			<-f.done // its end would tell the program that all has been read
		}
	})
}

// run copies what there is and what comes, until the input ends, the command reads no more, or the attempt is over.
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
		if unread != nil { // a program need not read its input
			return io.EOF
		}
		offset += n
	}
}

// stop ends the feeding and waits for it.
func (f *feeder) stop() {
	if f.in == nil {
		return
	}
	close(f.done)
	_ = f.read.Close()
	_ = f.write.Close() // also wakes a write that waits for the command
	f.ended.Wait()
}

// from returns what is kept from the offset on and why nothing follows it, or a channel that tells of more.
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

// keep adds to what is kept and reports whether that is the end.
func (in *Input) keep(chunk []byte, err error) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.kept = append(in.kept, chunk...)
	in.err = err
	if err == nil && len(in.kept) > maxInput {
		in.err = ErrInputTooLong
	}
	close(in.more)
	in.more = make(chan struct{})
	return in.err != nil
}
