package file

import (
	"errors"
	"fmt"
	"os"

	"github.com/tenetdev/tenet/internal/files"
)

// ErrLocked says that another source or sink, in this process or another, has the file open.
var ErrLocked = errors.New("file: in use by another source or sink")

// openLocked opens a file for reading and writing, creates a missing one, and keeps other sources and sinks out.
func openLocked(path string) (*os.File, error) {
	file, err := files.OpenLocked(path)
	if errors.Is(err, files.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return file, err
}
