package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
)

func checkModes(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

func TestO2FilesArePrivateWhateverTheUmask(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := openFile(t, path)
	if _, err := db.Jobs().Enqueue(t.Context(), []job.Insert{number(1)}); err != nil {
		t.Fatal(err)
	}
	checkModes(t, path, 0o600)
}

func TestO2AnExistingFileKeepsItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	openFile(t, path)
	checkModes(t, path, 0o660)
}

func TestO2WhatIsNotARegularFileIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	pipe, link, elsewhere := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "elsewhere")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: " is a pipe: name a regular file", os.DevNull: " is a device: name a regular file", link: " is a symbolic link",
	} {
		if _, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true}); err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a file was created through a link")
	}
}

// TestAFolderThatCannotBeWrittenToIsNamed opens files as a user without permissions.
func TestAFolderThatCannotBeWrittenToIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "jobs.db")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{filepath.Dir(dir): 0o755, dir: 0o555, path: 0o666} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	failed := make(chan error, 2)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which has changed its user, ends with the goroutine
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				failed <- err
				failed <- err
				return
			}
		}
		for _, name := range []string{"jobs.db", "new.db"} {
			db, err := sqlite.Open(t.Context(), filepath.Join(dir, name), sqlite.Options{Create: true})
			if err == nil {
				_ = db.Close()
			}
			failed <- err
		}
	}()
	for range 2 {
		err := <-failed
		if err == nil || !strings.Contains(err.Error(), "the folder "+dir+" cannot be written to (permission denied): make it writable for this user") {
			t.Errorf("error %v", err)
		}
	}
}

func TestAShortageOfDescriptorsIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	first := uint64(next.Fd())
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	for left, want := range []string{"too many open files: raise the limit on open files (ulimit -n)", "raise the limit on open files (ulimit -n) if this process has reached it"} {
		short := before
		short.Cur = first + uint64(left)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &short); err != nil {
			t.Fatal(err)
		}
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if restored := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); restored != nil {
			t.Fatal(restored)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d descriptors left: %v", left, err)
		}
	}
}
