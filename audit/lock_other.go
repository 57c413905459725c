//go:build !unix

package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lockFile takes the lock that keeps other writers out. It is a file that the writer deletes: one that a crash left behind
// must be deleted by hand.
func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w; if no process has it open, delete %s", ErrLocked, path)
	}
	return file, err
}

func unlockFile(lock *os.File) error { return errors.Join(lock.Close(), os.Remove(lock.Name())) }

// syncNames does nothing: these systems do not open directories for it.
func syncNames(*os.File) error { return nil }
