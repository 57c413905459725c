package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/files"
)

// OfServer names the log of the server that a command was given.
const OfServer = "server:"

// AuditLog is a log opened for reading.
type AuditLog struct {
	audit.Source
	Name     string                                      // its path, or "the log": URLs hold passwords
	Heads    func(context.Context) ([]audit.Head, error) // nil for files
	close    func() error
	files    *audit.FileSource // nil for stores
	segments []segment         // files read so far
	lines    int               // lines read so far
}

// CheckLines returns the failure for a log of which no line is an event, given how many it has and how many are not.
func (l *AuditLog) CheckLines(lines, unreadable int) error {
	if lines == 0 || unreadable < lines {
		return nil
	}
	return cli.Fail(cli.ExitFailed, fmt.Errorf("%s: none of its %d lines is an intact event; name a log that --audit has written", l.Name, lines))
}

// WarnLeftOut warns of lines that are not events and were left out.
func (l *AuditLog) WarnLeftOut(a *cli.App, lines int) {
	if lines > 0 {
		a.Warn("%s: lines that are not events were left out: %d; run tenet audit verify to see whether they were changed", l.Name, lines)
	}
}

// Direct returns the log with the indexes of its store. Files have none.
func (l *AuditLog) Direct() audit.Source {
	if l.files == nil {
		return l.Source
	}
	return l
}

// segment is a file of a log.
type segment struct {
	number string
	first  int // index of its first line
}

// Read reads the log and records the index of the first line of each file.
func (l *AuditLog) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	if after == "" {
		l.segments, l.lines = nil, 0
	}
	return l.Source.Read(ctx, after, func(cursor string, line []byte) error {
		if number, _, _ := strings.Cut(cursor, ":"); l.files != nil && (len(l.segments) == 0 || l.segments[len(l.segments)-1].number != number) {
			l.segments = append(l.segments, segment{number, l.lines})
		}
		l.lines++
		return f(cursor, line)
	})
}

// Place returns the file of the line with an index, and the line's number in it, from 1. Stores have neither.
func (l *AuditLog) Place(index int) (file string, line int) {
	for _, s := range slices.Backward(l.segments) {
		if s.first <= index {
			number, _ := strconv.ParseUint(s.number, 10, 64)
			return l.files.Path(number), index - s.first + 1
		}
	}
	return "", 0
}

// IsLogURL reports whether a text is the URL of an audit log, not a path.
func IsLogURL(text string) bool {
	name, _, ok := strings.Cut(text, ":")
	s, known := schemeOf(name)
	return ok && known && (s.forms[UseLog] != "" || s.refused[UseLog] != "")
}

// openAuditLog opens a log for reading: a URL, or the path of a file.
func openAuditLog(ctx context.Context, a *cli.App, text string) (*AuditLog, error) {
	if text == "" || text == OfServer {
		if server, err := Target(ctx); server != nil || err != nil {
			return serverLog(server), err
		}
	}
	switch {
	case text == OfServer:
		return nil, cli.Usagef("%s is the log of --server, which is missing", OfServer)
	case text == "":
		return nil, cli.Usagef("no log is named; write a path, %s, or give --server", UseLog.Forms())
	case !IsLogURL(text) && !strings.Contains(text, "://"):
		return fileLog(text), nil
	}
	r := Ref{URL: text, Use: UseLog}
	at, _, err := r.locate()
	switch {
	case err != nil:
		return nil, err
	case at.scheme == schemeFile:
		return fileLog(at.path), nil
	}
	s, err := Records(ctx, a, r, false)
	if err != nil {
		return nil, err
	}
	return &AuditLog{Source: s.Audit, Name: "the log", Heads: s.Audit.Heads, close: s.Close}, nil
}

func fileLog(path string) *AuditLog {
	source := audit.NewFileSource(path)
	return &AuditLog{Source: source, files: source, Name: path, close: func() error { return nil }}
}

// WithAuditLog runs f on a log and closes it.
func WithAuditLog(ctx context.Context, a *cli.App, url string, f func(*AuditLog) error) error {
	log, err := openAuditLog(ctx, a, url)
	if err != nil {
		return err
	}
	err = f(log)
	if err == nil && log.Heads == nil {
		warnCut(a, log.Name)
	}
	if errors.Is(err, fs.ErrNotExist) && log.Heads == nil {
		err = cli.Fail(cli.ExitNotFound, fmt.Errorf("log %s does not exist", url))
	}
	return errors.Join(err, log.close())
}

// warnCut warns of a file whose last line has no newline. Readers leave it out, because it may still be being written.
func warnCut(a *cli.App, path string) {
	file, err := files.Open(path)
	if err != nil {
		return // the last file was rotated away, or reading has failed already
	}
	defer file.Close()
	last := make([]byte, 1)
	if _, err := file.Seek(-1, io.SeekEnd); err != nil { // it is empty
		return
	}
	if _, err := io.ReadFull(file, last); err == nil && last[0] != '\n' {
		a.Warn("%s: the last line was left out, because it has no newline: it was cut off or is still being written", path)
	}
}
