package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := group("audit", "Verify, replay, sum up and read audit logs", `Verify, replay, sum up and read audit logs, as written with --audit. LOG is the path of a file, or file:PATH, sqlite:PATH,
postgres://… or nats://…. None of these commands changes a log.`,
		a.verifyCommand(), a.headCommand(), a.replayCommand(), a.auditStatsCommand(), a.queryCommand(), a.tailCommand(), a.explainCommand())
	cmd.Example = `  tenet audit verify audit.jsonl
  tenet audit replay audit.jsonl --what-if new.yaml
  tenet audit explain audit.jsonl 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55`
	return cmd
}

// auditLog is a log that is read.
type auditLog struct {
	audit.Source
	name     string     // its path, or "the log": URLs hold passwords
	sink     audit.Sink // nil for files
	close    func() error
	files    *audit.FileSource // nil for stores
	segments []segment         // of files, as far as the log was read
	lines    int               // that were read
}

// segment is a file of a log.
type segment struct {
	number string
	first  int // index of its first line
}

// Read reads the log and notes where each of its files begins.
func (l *auditLog) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
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

// place returns the file of the line with an index, and the line's number in it, from 1. Stores have neither.
func (l *auditLog) place(index int) (file string, line int) {
	for _, s := range slices.Backward(l.segments) {
		if s.first <= index {
			number, _ := strconv.ParseUint(s.number, 10, 64)
			return l.files.Path(number), index - s.first + 1
		}
	}
	return "", 0
}

// openAuditLog opens a log for reading.
func (a *app) openAuditLog(ctx context.Context, url string) (*auditLog, error) {
	kind, rest, _ := strings.Cut(url, ":")
	switch {
	case url == "":
		return nil, usage("the log's name is empty; write a file's path, sqlite:PATH, postgres://… or nats://…")
	case kind == "file":
		return fileLog(strings.TrimPrefix(rest, "//")), nil
	case !isStored(url):
		if strings.Contains(url, "://") {
			return nil, usage("%s:…: unknown kind of log; write a file's path, sqlite:PATH, postgres://… or nats://…", kind)
		}
		return fileLog(url), nil
	}
	s, err := a.openRecords(ctx, "audit", url, false)
	if err != nil {
		return nil, err
	}
	source, ok := s.audit.(audit.Source)
	if !ok {
		return nil, errors.Join(usage("%s: this store keeps no audit log that can be read", url), s.close())
	}
	return &auditLog{Source: source, name: "the log", sink: s.audit, close: s.close}, nil
}

// isStored reports whether a log is kept in a store.
func isStored(url string) bool {
	for _, scheme := range []string{"memory:", "sqlite:", "postgres:", "postgresql:", "nats:", "tls:"} {
		if strings.HasPrefix(url, scheme) {
			return true
		}
	}
	return false
}

func fileLog(path string) *auditLog {
	source := audit.NewFileSource(path)
	return &auditLog{Source: source, files: source, name: path, close: func() error { return nil }}
}

// withAuditLog runs f on a log and closes it.
func (a *app) withAuditLog(ctx context.Context, url string, f func(*auditLog) error) error {
	log, err := a.openAuditLog(ctx, url)
	if err != nil {
		return err
	}
	err = f(log)
	if err == nil && log.sink == nil {
		a.warnCut(log.name)
	}
	if errors.Is(err, fs.ErrNotExist) && log.sink == nil {
		err = fail(exitNotFound, fmt.Errorf("log %s does not exist", url))
	}
	return errors.Join(err, log.close())
}
