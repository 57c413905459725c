package files

import (
	"os"
	"syscall"
)

// SyncData makes the content of a file durable, without its times.
func SyncData(file *os.File) error {
	for {
		err := syscall.Fdatasync(int(file.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
