//go:build unix

package file_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/adapter/file"
)

// publish writes one transaction to a sink and closes it.
func publish(t *testing.T, path string, o file.SinkOptions) {
	t.Helper()
	sink := create(t, path, o)
	dispatch(t, sink, `{"n":1}`)
	closeAll(t, sink)
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode() != want {
		t.Errorf("%s: mode %v, %v, want %v", path, info.Mode(), err, want)
	}
}

func TestO2OutputsAndOffsetsArePrivate(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	dir := t.TempDir()
	path, added := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "added.jsonl")
	publish(t, path, file.SinkOptions{})
	publish(t, added, file.SinkOptions{Append: true})
	closeAll(t, open(t, path, file.SourceOptions{}))
	for _, name := range []string{path, added, path + ".offset"} {
		checkMode(t, name, 0o600)
	}
}

func TestO2AReplacedOutputKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	rewrite(t, path, "{}\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	publish(t, path, file.SinkOptions{Replace: true})
	checkMode(t, path, 0o644)
	publish(t, path, file.SinkOptions{Append: true})
	checkMode(t, path, 0o644)
}

// TestO2ASinkDoesNotFollowAPlantedLink checks that only the path named by the caller may be a link.
func TestO2ASinkDoesNotFollowAPlantedLink(t *testing.T) {
	dir := t.TempDir()
	theirs, path := filepath.Join(dir, "theirs"), filepath.Join(dir, "out.jsonl")
	rewrite(t, theirs, "do not touch")
	for _, link := range []string{path + ".part", path + ".offset", filepath.Join(dir, "link.jsonl")} {
		if err := os.Symlink(theirs, link); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.OpenSink(path, file.SinkOptions{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("output: %v", err)
	}
	rewrite(t, path, "{}\n")
	if _, err := file.OpenSource(path, file.SourceOptions{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("offsets: %v", err)
	}
	if content, err := os.ReadFile(theirs); err != nil || string(content) != "do not touch" {
		t.Errorf("the file elsewhere holds %q: %v", content, err)
	}
	publish(t, filepath.Join(dir, "link.jsonl"), file.SinkOptions{Append: true}) // the caller's own link
	if content, err := os.ReadFile(theirs); err != nil || !strings.HasSuffix(string(content), "touch\n{\"n\":1}\n") {
		t.Errorf("appended to through a link: %q, %v", content, err)
	}
}

func TestO2ASourceAndASinkRefuseAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.OpenSource(path, file.SourceOptions{}); err == nil || !strings.Contains(err.Error(), "is a pipe") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("source: %v", err)
	}
	for _, o := range []file.SinkOptions{{Append: true}, {Replace: true}} {
		if _, err := file.OpenSink(path, o); err == nil || !strings.Contains(err.Error(), "is a pipe") {
			t.Errorf("sink %+v: %v", o, err)
		}
	}
}
