package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Write replaces the content of the file at path in one step, or creates the file.
func Write(path string, parts ...[]byte) error {
	file, err := replacement(path, func(file *os.File) error {
		for _, part := range parts {
			if _, err := file.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return rename(file.Name(), path)
}

// Swap replaces the file at path with one that fill writes, or creates it. It returns the new file open and locked.
func Swap(path string, fill func(*os.File) error) (*os.File, error) {
	file, err := replacement(path, func(file *os.File) error {
		if err := lock(file); err != nil {
			return err
		}
		return fill(file)
	})
	if err != nil {
		return nil, err
	}
	if err := rename(file.Name(), path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Rename moves a file to the name of another, which it replaces and whose mode it takes.
func Rename(from, to string) error {
	mode, err := modeFor(to)
	if err != nil {
		return err
	}
	if mode != 0 {
		if err := os.Chmod(from, mode); err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(to)
}

// Replaceable returns the error with which [Rename] and [Write] refuse to replace what is at path.
func Replaceable(path string) error {
	_, err := modeFor(path)
	return err
}

// replacement writes a durable file beside path, with the mode that path has. The caller renames it.
func replacement(path string, fill func(*os.File) error) (*os.File, error) {
	mode, err := modeFor(path)
	if err != nil {
		return nil, err
	}
	mode = cmp.Or(mode, private)
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	err = fill(file)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync() // a crash could otherwise leave the new name on an empty file
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Remove(from))
	}
	return SyncDir(to)
}

// modeFor returns the mode of the file at path, or 0 for a missing file or a symbolic link: a rename replaces the link, not its
// target. It refuses a link to what is not a file, or to one of this process's open files, as /dev/stdout is.
func modeFor(path string) (fs.FileMode, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err == nil && strings.HasPrefix(to, "/proc/") {
			return 0, fmt.Errorf("replace: %w", Regular(path, info))
		}
		if target, statErr := os.Stat(path); statErr == nil && !target.Mode().IsRegular() {
			return 0, fmt.Errorf("replace: %w", Regular(path, target))
		}
		return 0, err
	}
	if err := Regular(path, info); err != nil {
		return 0, fmt.Errorf("replace: %w", err)
	}
	return info.Mode().Perm(), nil
}
