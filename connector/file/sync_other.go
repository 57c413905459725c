//go:build !linux

package file

import "os"

// syncData flushes what a file holds.
func syncData(file *os.File) error { return file.Sync() }
