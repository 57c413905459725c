//go:build !linux

package files

import "os"

// SyncData makes the content of a file durable.
func SyncData(file *os.File) error { return file.Sync() }
