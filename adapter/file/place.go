package file

import (
	"errors"
	"fmt"
	"os"

	"github.com/tenetdev/tenet/internal/files"
)

// ErrLocked is returned while another source or sink, in this process or another, has the file open.
var ErrLocked = errors.New("file: in use by another source or sink")

// openLocked opens a file for reading and writing, creates it if it is missing, and locks out other sources and sinks.
func openLocked(path string) (*os.File, error) {
	file, err := files.OpenLocked(path)
	if errors.Is(err, files.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return file, err
}
