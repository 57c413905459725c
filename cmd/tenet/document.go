package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// standardInput is the file name that stands for stdin.
const standardInput = "-"

// maxInput bounds what is read into memory of a file or stdin.
const maxInput = 64 << 20 // bytes

// readFile reads a regular file of at most 64 MiB, or stdin. A read of stdin that ctx ends before stdin does is left behind.
func (a *app) readFile(ctx context.Context, path string) ([]byte, error) {
	if path == standardInput {
		return readAll(ctx, a.stdin)
	}
	text, err := files.Read(path, maxInput)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noFile(path)
	}
	return text, err
}

// noFile is the failure of a command whose file is missing.
func noFile(path string) error {
	return fail(exitNotFound, fmt.Errorf("file %s does not exist", path))
}

// notMade says in plain words why a file could not be created, where the cause is its path.
func notMade(path string, err error) error {
	folder := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("folder %s does not exist: create it first, or name another file", folder)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be written to: permission denied; name another file, or make it and its folder writable", path)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	return err
}

func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(r, maxInput+1))
		if err == nil && len(text) > maxInput {
			text, err = nil, fmt.Errorf("standard input is larger than %d bytes", maxInput)
		}
		read <- result{text, err}
	}()
	select {
	case r := <-read:
		return r.text, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// load reads a document for use. Its warnings and faults go to stderr.
func (a *app) load(ctx context.Context, path string) (*policyfile.Document, error) {
	return a.loadWithin(ctx, path, policy.CallLimits())
}

// loadWithin is load with limits of calls other than the built-in ones.
func (a *app) loadWithin(ctx context.Context, path string, calls policy.Limits) (*policyfile.Document, error) {
	text, err := a.readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	document, err := policyfile.Parse(path, text, policyfile.Options{Limits: map[policy.Surface]policy.Limits{policy.SurfaceCall: calls}})
	if refused, ok := errors.AsType[*policyfile.Error](err); ok {
		a.tellFaults(refused.Faults)
		return nil, exit(exitInvalid)
	}
	if err != nil {
		return nil, err
	}
	a.tellFaults(document.Warnings)
	return document, nil
}

// tellFaults writes faults with the lines that they stand in.
func (a *app) tellFaults(faults []policyfile.Fault) {
	for _, f := range faults {
		if a.structured() {
			level := slog.LevelError
			if f.Warning {
				level = slog.LevelWarn
			}
			a.logger(a.stderr, false).Log(context.Background(), level, f.String())
			continue
		}
		if f.Warning && a.level() > slog.LevelWarn {
			continue
		}
		if f.Warning {
			fprintf(a.stderr, "%s%s\n", a.paint(a.stderr, yellow, "warning: "), f)
		} else {
			fprintln(a.stderr, a.paint(a.stderr, red, f))
		}
		caret := f.Caret()
		if strings.HasPrefix(caret, "\n") { // it does not know its line
			continue
		}
		for line := range strings.SplitSeq(caret, "\n") {
			fprintf(a.stderr, "    %s\n", a.paint(a.stderr, faint, line))
		}
	}
}

// policyOf finds the policy of a key in a document.
func policyOf(set *policy.Set, key policy.Key) (*policy.Policy, error) {
	p, err := set.Policy(context.Background(), key)
	if err != nil {
		return nil, fmt.Errorf("policy of %s: %w", key, err)
	}
	return p, nil
}
