package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// StandardInput is the file name that stands for stdin.
const StandardInput = "-"

// MaxInput is the maximum number of bytes that commands read into memory from a file or stdin.
const MaxInput = 64 << 20

// ReadFile reads a regular file of at most 64 MiB, or stdin. If ctx ends first, the read of stdin goes on in the background.
func (a *App) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == StandardInput {
		if err := a.takeStdin(); err != nil {
			return nil, err
		}
		return readAll(ctx, a.Stdin)
	}
	text, err := files.Read(path, MaxInput)
	return text, NotRead(path, err)
}

// NotRead explains why a file could not be read, if the cause is its path; otherwise it returns err, which may be nil.
func NotRead(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NoFile(path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be read: permission denied; make it readable for this user, or name another file", path)
	}
	return err
}

// takeStdin refuses a second input from stdin: the first reads all of it.
func (a *App) takeStdin() error {
	if a.stdinTaken {
		return errTwoStdin
	}
	a.stdinTaken = true
	return nil
}

var errTwoStdin = Usagef("two inputs are stdin (-): name a file for one of them")

// OneStdin refuses two arguments that are stdin before anything is read. It is for commands whose arguments are files.
func OneStdin(_ *cobra.Command, files []string) error {
	if i := slices.Index(files, StandardInput); i >= 0 && slices.Contains(files[i+1:], StandardInput) {
		return errTwoStdin
	}
	return nil
}

// NoFile returns the failure for a missing file.
func NoFile(path string) error {
	if strings.HasPrefix(path, ServerScheme) {
		return Usagef("%s: this command reads files; write the document to one with tenet policy get NAME > FILE", path)
	}
	return Fail(ExitNotFound, fmt.Errorf("file %s does not exist", path))
}

// NotMade explains why a file could not be created, if the cause is its path; otherwise it returns err, which may be nil.
func NotMade(path string, err error) error {
	folder := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: folder %s does not exist: create it first, or name another file", path, folder)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be written to: permission denied; name another file, or make it and its folder writable", path)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	return err
}

// readAll reads r, which is stdin, to its end: at most MaxInput bytes. If ctx ends first, the read goes on in the background.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := io.ReadAll(io.LimitReader(r, MaxInput+1))
		if err == nil && len(text) > MaxInput {
			text, err = nil, fmt.Errorf("standard input is larger than %d bytes", MaxInput)
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

// Load reads a document, and prints its warnings and faults to stderr.
func (a *App) Load(ctx context.Context, path string) (*policyfile.Document, error) {
	return a.LoadWithin(ctx, path, nil)
}

// LoadWithin is Load with an operator's own limits.
func (a *App) LoadWithin(ctx context.Context, path string, limits map[policy.Surface]policy.Limits) (*policyfile.Document, error) {
	text, err := a.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	return a.Parse(path, text, limits)
}

// Parse is LoadWithin for the text of a document that has already been read.
func (a *App) Parse(path string, text []byte, limits map[policy.Surface]policy.Limits) (*policyfile.Document, error) {
	document, err := policyfile.Parse(path, text, policyfile.Options{Limits: limits})
	if err != nil {
		return nil, a.Refused(err)
	}
	a.PrintFaults(document.Warnings)
	return document, nil
}

// Refused prints the faults of an invalid document to stderr, and returns its failure. Other errors it returns as they are.
func (a *App) Refused(err error) error {
	refused, ok := errors.AsType[*policyfile.Error](err)
	if !ok {
		return err
	}
	a.PrintFaults(refused.Faults)
	return Exit(ExitInvalid)
}

// PrintFaults prints faults to stderr, with the lines of the document that they are in.
func (a *App) PrintFaults(faults []policyfile.Fault) {
	for _, f := range faults {
		if a.Structured() {
			level := slog.LevelError
			if f.Warning {
				level = slog.LevelWarn
			}
			a.Logger(a.Stderr, false).Log(context.Background(), level, f.String())
			continue
		}
		if f.Warning && a.Level() > slog.LevelWarn {
			continue
		}
		if f.Warning {
			Fprintf(a.Stderr, "%s%s\n", a.Paint(a.Stderr, Yellow, "warning: "), f)
		} else {
			Fprintln(a.Stderr, a.Paint(a.Stderr, Red, f))
		}
		caret := f.Caret()
		if strings.HasPrefix(caret, "\n") { // the fault has no line
			continue
		}
		for line := range strings.SplitSeq(caret, "\n") {
			Fprintf(a.Stderr, "    %s\n", a.Paint(a.Stderr, Faint, line))
		}
	}
}

// PolicyOf returns the policy of a key.
func PolicyOf(set *policy.Set, key policy.Key) *policy.Policy {
	p, _ := set.Policy(context.Background(), key) // a Set never fails
	return p
}

// FaultResult is a fault of a document in JSON output.
type FaultResult struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// FaultResultOf returns a fault as commands print it.
func FaultResultOf(f policyfile.Fault) FaultResult {
	return FaultResult{f.Line, f.Column, f.Path, f.Problem, f.Remedy}
}

// DocumentFlag adds --policy to a command.
func DocumentFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("policy", "", "policy document to use; - is stdin")
}

// Missing reports whether no file exists at a path.
func Missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
