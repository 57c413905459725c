//go:build unix

package main

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

func TestASignalEndsTheWaitForAReaderOfTheTimeline(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(command.Interrupt{Signal: syscall.SIGTERM})
	code, out, errs := runIn(ctx, nil, "", "run", "--timeline-file", pipe, "--", "echo", "ran")
	if code != 143 || out != "" || errs != "tenet: --timeline-file: "+pipe+" is a pipe that nobody reads: start its reader, or name a file: stopped by signal 15 (terminated)\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestO2ACertificateThatIsNotARegularFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, store := filepath.Join(dir, "pipe"), "sqlite:"+filepath.Join(dir, "jobs.db")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := runIn(t.Context(), nil, "", "server", "--store", store, "--tls-cert", pipe, "--tls-key", pipe)
	if code != 1 || errs != "tenet: --tls-cert and --tls-key: "+pipe+" is a pipe: name a regular file\n" {
		t.Errorf("code %d, stderr %q", code, errs)
	}
}
