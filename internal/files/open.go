package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRegular is wrapped by the error for a path that names a directory, pipe, socket or device, or a symbolic link where
// links are not followed.
var ErrNotRegular = errors.New("name a regular file")

// ErrTooLarge is wrapped by the error for a file that is larger than the caller's limit.
var ErrTooLarge = errors.New("the file is too large")

// ErrLocked is wrapped by the error for a file that another opener has locked, in this process or another.
var ErrLocked = errors.New("the file is locked")

const private fs.FileMode = 0o600

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAll(file, limit)
}

// ReadAll returns the rest of an open file of at most limit bytes.
func ReadAll(file *os.File, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, fmt.Errorf("%s: %w: the limit is %d bytes", file.Name(), ErrTooLarge, limit)
	}
	return content, err
}

// EndOfLines returns the size of a file up to the end of its last complete line.
func EndOfLines(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	block := make([]byte, 64<<10)
	for end := info.Size(); end > 0; {
		start := max(end-int64(len(block)), 0)
		n, err := file.ReadAt(block[:end-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(block[:n], '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// Create makes an empty file with mode 0600 unless path exists. It leaves an existing regular file alone and refuses anything
// else. It does not open the existing file: closing it would release this process's other locks on it, such as SQLite's.
func Create(path string) error {
	info, err := os.Stat(path)
	if err == nil {
		return Regular(path, info)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := create(path)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil { // another process made it meanwhile
			return Regular(path, info)
		}
		return err
	}
	return file.Close()
}

func create(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err != nil {
		if info, statErr := os.Lstat(path); statErr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link, and no file is created through a link: %w", path, err)
		}
		return nil, err
	}
	if err := file.Chmod(private); err != nil { // the umask may have taken bits away
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// OpenPrivate opens a regular file for reading and writing. It creates a missing file with mode 0600, but not through a
// symbolic link.
func OpenPrivate(path string) (*os.File, error) {
	const tries = 10 // others may create and remove the file meanwhile
	for try := 1; ; try++ {
		file, err := open(path, os.O_RDWR)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
		file, err = create(path)
		if err == nil || !errors.Is(err, fs.ErrExist) || try == tries {
			return file, err
		}
	}
}

// OpenLocked opens a file as [OpenPrivate] does and locks it until it is closed or the process ends. It refuses a symbolic link.
// If the file is already locked, the error wraps [ErrLocked].
func OpenLocked(path string) (*os.File, error) {
	for {
		file, err := OpenPrivate(path)
		if err != nil {
			return nil, err
		}
		same, err := lockNamed(file, path)
		if err == nil && same {
			return file, nil
		}
		file.Close()
		if err != nil {
			return nil, err
		}
	}
}

// lockNamed locks a file and reports whether path still names it: it may have been replaced before it was locked.
func lockNamed(file *os.File, path string) (bool, error) {
	if err := lock(file); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return os.SameFile(mine, named), Regular(path, named)
}

func open(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag|noWait, 0)
	if err != nil {
		return nil, notRegular(path, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = Regular(path, info)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// notRegular names the cause of an error in opening a directory, a socket or a pipe.
func notRegular(path string, failed error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Regular(path, info)
	}
	return failed
}

// Regular returns an error for a file that is not regular, which says what it is and wraps [ErrNotRegular].
func Regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	kind := "a device"
	switch mode := info.Mode(); {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Errorf("%s is %s: %w", path, kind, ErrNotRegular)
}

// SyncDir makes the names of files in path's directory durable, where the system can.
func SyncDir(path string) error { return syncDir(filepath.Dir(path)) }
