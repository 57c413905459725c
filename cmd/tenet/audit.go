package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	name  string     // its path, or "the log": URLs hold passwords
	sink  audit.Sink // nil for files
	close func() error
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
	return &auditLog{source, "the log", s.audit, s.close}, nil
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
	return &auditLog{Source: audit.NewFileSource(path), name: path, close: func() error { return nil }}
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
		err = &failure{exitNotFound, fmt.Errorf("log %s does not exist", url)}
	}
	return errors.Join(err, log.close())
}
