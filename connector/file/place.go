package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrLocked says that another source or sink, here or in another process, has the file.
var ErrLocked = errors.New("file: in use by another source or sink")

// openLocked opens a file for reading and writing, makes it where there is none, and keeps others out until it is closed.
func openLocked(path string, mode fs.FileMode) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode)
		if err != nil {
			return nil, err
		}
		if err := lock(file); err != nil {
			file.Close()
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		mine, err := file.Stat()
		if err != nil {
			file.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return file, nil
		}
		file.Close() // it was replaced meanwhile
	}
}

// replace gives a file the name of another, for good.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}
