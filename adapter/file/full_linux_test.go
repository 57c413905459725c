package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/pipeline"
)

// TestL11AFullDiskIsAnError checks that each write to a full disk fails and leaves no partial record.
func TestL11AFullDiskIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	sink := create(t, path, file.SinkOptions{})
	dispatch(t, sink, `"first"`)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = 10 // bytes of a file; "first" takes 8
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	err := sink.Dispatch(t.Context(), pipeline.NewTransaction("a", []byte(`"second"`)))
	if reset := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); reset != nil {
		t.Fatal(reset)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("%v", err)
	}
	contains(t, path+".part", "\"first\"\n")
	dispatch(t, sink, `"third"`)
	closeAll(t, sink)
	contains(t, path, "\"first\"\n\"third\"\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
