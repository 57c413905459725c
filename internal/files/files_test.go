//go:build unix

package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/internal/files"
)

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// ways lists the functions that create a file or open an existing one.
var ways = map[string]func(path string) error{
	"create": files.Create,
	"open":   func(path string) error { return closed(files.OpenPrivate(path)) },
	"lock":   func(path string) error { return closed(files.OpenLocked(path)) },
	"write":  func(path string) error { return files.Write(path, []byte("new")) },
	"swap":   func(path string) error { return closed(files.Swap(path, func(*os.File) error { return nil })) },
	"rename": func(path string) error {
		if err := files.Create(path + ".part"); err != nil {
			return err
		}
		return files.Rename(path+".part", path)
	},
}

func closed(file *os.File, err error) error {
	if err != nil {
		return err
	}
	return file.Close()
}

func TestO2NewFilesArePrivateWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o277} {
		for name, way := range ways {
			path := filepath.Join(t.TempDir(), "data")
			before := syscall.Umask(umask)
			err := way(path)
			syscall.Umask(before)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if mode := modeOf(t, path); mode != 0o600 {
				t.Errorf("%s with umask %o: mode %v", name, umask, mode)
			}
		}
	}
}

func TestO2AnExistingModeIsKept(t *testing.T) {
	for name, way := range ways {
		path := filepath.Join(t.TempDir(), "data")
		write(t, path, "old", 0o640)
		if err := way(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if mode := modeOf(t, path); mode != 0o640 {
			t.Errorf("%s: mode %v", name, mode)
		}
	}
}

func TestO2AFileThatIsNotRegularIsRejected(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(path string) error{
		"read": func(path string) error { _, err := files.Read(path, 10); return err }, "open to read": func(path string) error { return closed(files.Open(path)) },
		"create": ways["create"], "open": ways["open"], "lock": ways["lock"], "write": ways["write"], "swap": ways["swap"], "rename": ways["rename"],
	}
	for name, way := range ways {
		for path, kind := range map[string]string{pipe: "a pipe", dir: "a directory"} {
			if err := way(path); !errors.Is(err, files.ErrNotRegular) || !strings.Contains(err.Error(), path+" is "+kind) {
				t.Errorf("%s of %s: %v", name, kind, err)
			}
		}
	}
	if modeOf(t, pipe)&fs.ModeNamedPipe == 0 {
		t.Error("the pipe was replaced")
	}
}

func TestO2ReplacingDoesNotFollowLinks(t *testing.T) {
	for name, way := range map[string]func(string) error{"write": ways["write"], "swap": ways["swap"], "rename": ways["rename"]} {
		dir := t.TempDir()
		elsewhere, path := filepath.Join(dir, "elsewhere"), filepath.Join(dir, "data")
		write(t, elsewhere, "theirs", 0o644)
		if err := os.Symlink(elsewhere, path); err != nil {
			t.Fatal(err)
		}
		if err := way(path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if contentOf(t, elsewhere) != "theirs" || modeOf(t, elsewhere) != 0o644 || modeOf(t, path) != 0o600 {
			t.Errorf("%s: the file elsewhere holds %q with mode %v; the new one has mode %v", name, contentOf(t, elsewhere), modeOf(t, elsewhere), modeOf(t, path))
		}
	}
}

// TestO2ALinkToADeviceIsNotReplaced: a command that writes to /dev/stdout must not leave a file in its place.
func TestO2ALinkToADeviceIsNotReplaced(t *testing.T) {
	for _, target := range []string{os.DevNull, "/proc/self/fd/1"} {
		path := filepath.Join(t.TempDir(), "out")
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		for name, way := range map[string]func(string) error{"write": ways["write"], "swap": ways["swap"], "rename": ways["rename"]} {
			if err := way(path); !errors.Is(err, files.ErrNotRegular) {
				t.Errorf("%s over a link to %s: %v", name, target, err)
			}
		}
		if modeOf(t, path)&fs.ModeSymlink == 0 {
			t.Errorf("the link to %s was replaced", target)
		}
	}
}

func TestO2NoFileIsCreatedThroughALink(t *testing.T) {
	for name, way := range map[string]func(string) error{"create": ways["create"], "open": ways["open"], "lock": ways["lock"]} {
		dir := t.TempDir()
		elsewhere, path := filepath.Join(dir, "elsewhere"), filepath.Join(dir, "data")
		if err := os.Symlink(elsewhere, path); err != nil {
			t.Fatal(err)
		}
		if err := way(path); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path+" is a symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s created the target of the link: %v", name, err)
		}
	}
	dir := t.TempDir()
	elsewhere, path := filepath.Join(dir, "elsewhere"), filepath.Join(dir, "data")
	write(t, elsewhere, "theirs", 0o644)
	if err := os.Symlink(elsewhere, path); err != nil {
		t.Fatal(err)
	}
	if err := ways["lock"](path); !errors.Is(err, files.ErrNotRegular) {
		t.Errorf("a file was locked through a link: %v", err)
	}
	if err := ways["open"](path); err != nil {
		t.Errorf("the caller may name a file by a link: %v", err)
	}
}

func TestO2ReadsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	write(t, path, "0123456789", 0o600)
	if content, err := files.Read(path, 10); err != nil || string(content) != "0123456789" {
		t.Errorf("content %q: %v", content, err)
	}
	if _, err := files.Read(path, 9); !errors.Is(err, files.ErrTooLarge) || !strings.Contains(err.Error(), path) {
		t.Errorf("one byte beyond the limit: %v", err)
	}
	if _, err := files.Read(path+".none", 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestAFileIsLockedUntilItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first, err := files.OpenLocked(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := files.OpenLocked(path); !errors.Is(err, files.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("second opener: %v", err)
	}
	second, err := files.Swap(path, func(f *os.File) error { _, err := f.WriteString("new"); return err })
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := files.OpenLocked(path); !errors.Is(err, files.ErrLocked) {
		t.Errorf("the replacement is not locked: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := ways["lock"](path); err != nil {
		t.Errorf("after closing: %v", err)
	}
}

func TestAFailedReplacementLeavesTheOldFileAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data")
	write(t, path, "old", 0o600)
	failed := errors.New("failed")
	if _, err := files.Swap(path, func(*os.File) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 || contentOf(t, path) != "old" {
		t.Errorf("%d files, content %q", len(list), contentOf(t, path))
	}
	if err := files.Write(filepath.Join(dir, "none", "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}
