package file

import (
	"os"
	"syscall"
)

// syncData flushes what a file holds, without the times that it was changed at.
func syncData(file *os.File) error {
	for {
		err := syscall.Fdatasync(int(file.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
