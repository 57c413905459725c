//go:build unix

package controlplane

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestO2APipeIsNotRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFile(pipe, FileOptions{}); err == nil {
		t.Error("as a document")
	}
	if _, err := newCache(pipe, "x").load(); err == nil {
		t.Error("as a cache")
	}
}
