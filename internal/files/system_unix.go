//go:build unix

package files

import (
	"errors"
	"os"
	"syscall"
)

// noWait opens a pipe without waiting for its other end. Regular files ignore it.
const noWait = syscall.O_NONBLOCK

func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
