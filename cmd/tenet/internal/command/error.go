package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/retry"
)

// Exit codes of calls that do not end with the program's own code.
const (
	CodeFailed        = 1
	CodeTimedOut      = 124 // the last attempt timed out
	CodeNoAttempt     = 125 // stopped before any attempt
	CodeNotExecutable = 126 // or the machine lacked descriptors, processes or memory to start it
	CodeNotFound      = 127
	codeSignal        = 128 // plus the signal's number
)

// ExitError is an attempt that ended with a code other than 0, or by a signal.
type ExitError struct {
	Code   int            // 128 plus the signal's number if a signal ended it
	Signal syscall.Signal // 0 if the program exited
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("ended by signal %d (%v)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// TimeoutError is an attempt that timed out. It matches context.DeadlineExceeded.
type TimeoutError struct{ After time.Duration }

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("timed out after %v", e.After.Round(time.Millisecond))
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// StartError is a program that could not be started.
type StartError struct {
	Name string
	err  error
}

// Error implements error.
func (e *StartError) Error() string {
	if _, lookup := errors.AsType[*exec.Error](e.err); !lookup && errors.Is(e.err, fs.ErrNotExist) {
		return fmt.Sprintf("%s cannot be started: the interpreter in its first line, or the loader that it needs, does not exist", e.Name)
	}
	if e.notFound() {
		return fmt.Sprintf("%s: command not found", e.Name)
	}
	if info, err := os.Stat(e.Name); err == nil && info.IsDir() {
		return fmt.Sprintf("%s cannot be started: it is a directory", e.Name)
	}
	switch {
	case errors.Is(e.err, fs.ErrPermission):
		return fmt.Sprintf("%s cannot be started: permission denied; make it executable with chmod +x", e.Name)
	case errors.Is(e.err, syscall.EMFILE), errors.Is(e.err, syscall.ENFILE):
		return fmt.Sprintf("%s cannot be started: too many open files; raise the limit (ulimit -n)", e.Name)
	case errors.Is(e.err, syscall.ENOEXEC):
		return fmt.Sprintf("%s cannot be started: it is neither a program for this machine nor a script that begins with #!", e.Name)
	}
	return fmt.Sprintf("%s cannot be started: %v", e.Name, e.err)
}

// Unwrap returns the system's error.
func (e *StartError) Unwrap() error { return e.err }

func (e *StartError) notFound() bool {
	return errors.Is(e.err, exec.ErrNotFound) || errors.Is(e.err, fs.ErrNotExist)
}

// temporary reports whether the machine lacked descriptors, processes or memory.
func (e *StartError) temporary() bool {
	cause, ok := errors.AsType[syscall.Errno](e.err)
	return ok && (cause.Temporary() || cause == syscall.ENOMEM)
}

// Interrupt is the signal that stopped the caller. As the cause of the call's context it is passed on to the process group of
// the running attempt.
type Interrupt struct{ Signal syscall.Signal }

// Error implements error.
func (i Interrupt) Error() string {
	return fmt.Sprintf("stopped by signal %d (%v)", int(i.Signal), i.Signal)
}

// ErrInputTooLong is returned for input that is too long to be kept for another attempt.
var ErrInputTooLong = fmt.Errorf("the input is longer than the %d MiB that are kept for another attempt; "+
	"give it as a file (< FILE) or allow one attempt only (--max-attempts 1)", maxInput>>20)

// exitError translates what exec.Cmd.Wait returned.
func exitError(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return &ExitError{Code: codeSignal + int(status.Signal()), Signal: status.Signal()}
	}
	return &ExitError{Code: exit.ExitCode()}
}

// ExitCode returns the exit code for the error of a call: 128 plus the signal that interrupted the call; 127 or 126 for a
// program that could not be started; 125 if no attempt was made; 124 if the last attempt timed out; otherwise the program's
// last code, or 1. A nil error is 0.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if interrupt, ok := errors.AsType[Interrupt](err); ok {
		return codeSignal + int(interrupt.Signal)
	}
	if start, ok := errors.AsType[*StartError](err); ok {
		if start.notFound() {
			return CodeNotFound
		}
		return CodeNotExecutable
	}
	if call, ok := errors.AsType[*retry.Error](err); ok && call.Attempts == 0 {
		return CodeNoAttempt
	}
	if _, ok := errors.AsType[*TimeoutError](err); ok {
		return CodeTimedOut
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	return CodeFailed
}
