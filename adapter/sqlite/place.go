package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/tenetdev/tenet/internal/files"
)

// creating prevents SQLite from opening a new file before it is closed here: closing a file ends all locks that the process
// has on it.
var creating sync.Mutex

// prepare creates a missing file if it may, readable by its owner only; SQLite gives the files beside it the same mode.
func prepare(path string, create bool) error {
	creating.Lock()
	defer creating.Unlock()
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("sqlite: %s is a directory: name a file in it", path)
	case err == nil:
		if err := files.Regular(path, info); err != nil {
			return fmt.Errorf("sqlite: %w", err)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("sqlite: open: %w", err)
	case !create:
		return fmt.Errorf("sqlite: open: %w: name another file, or set Options.Create", err)
	}
	if err := files.Create(path); err != nil {
		return fmt.Errorf("sqlite: create: %w%s", err, remedy(path))
	}
	return nil
}

// origin identifies the opened file: its absolute path and its file information.
type origin struct {
	path string
	info os.FileInfo
}

func originOf(path string) (o origin, err error) {
	if o.path, err = filepath.Abs(path); err != nil {
		return o, err
	}
	o.info, err = os.Stat(o.path)
	return o, err
}

// present returns an error for a file that was removed or replaced since it was opened: writes to it would be lost when the last
// process closes it.
func (db *DB) present() error {
	if info, err := os.Stat(db.origin.path); err == nil && os.SameFile(info, db.origin.info) {
		return nil
	}
	return fmt.Errorf("%s was removed or replaced while it was open; nothing more is written to it: put it back, with the -wal file beside it, and restart this program", db.path)
}

// unwritable explains why SQLite cannot open or write an existing file, and what to do.
func unwritable(path string) string {
	if text := remedy(path); text != "" {
		return "SQLite keeps its log beside the file" + text
	}
	return "the file, or -wal or -shm beside it, cannot be opened for writing: make them writable for this user, or raise the limit on open files (ulimit -n) if this process has reached it"
}

// remedy names the folder of path if files cannot be created in it.
func remedy(path string) string {
	dir := filepath.Dir(path)
	probe, err := os.CreateTemp(dir, ".tenet-*")
	if err == nil {
		probe.Close()
		_ = os.Remove(probe.Name())
		return ""
	}
	if _, missing := os.Stat(dir); missing != nil {
		return fmt.Sprintf(": there is no folder %s: make it, or name another file", dir)
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Sprintf(": %v: raise the limit on open files (ulimit -n)", err)
	}
	return fmt.Sprintf(": the folder %s cannot be written to (%v): make it writable for this user, or name a file in another", dir, err)
}
