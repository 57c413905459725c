package files

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const noWait = 0

// lock locks a byte far beyond the content, because Windows keeps readers out of a locked range.
func lock(file *os.File) error {
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// syncDir does nothing: Windows does not flush directories.
func syncDir(string) error { return nil }
