package controlplane

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newFile follows a fresh file that says max_attempts: 4.
func newFile(t *testing.T, o FileOptions) (f *File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "policies.yaml")
	write(t, path, documentOf(4))
	return openFile(t, path, o), path
}

func openFile(t *testing.T, path string, o FileOptions) *File {
	t.Helper()
	if o.Logger == nil {
		o.Logger = silent()
	}
	f, err := NewFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func poll() { time.Sleep(time.Second + settle); synctest.Wait() }

func TestFileReloadsWhenTheContentChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []*policy.Set
		f, path := newFile(t, FileOptions{OnChange: func(s *policy.Set) { changes = append(changes, s) }})
		poll()
		ask(t, f, getUser, 4, policy.SourceFile, nil)
		version, set, status := f.Version(), f.Set(), f.Status()
		if len(changes) != 0 || status.LastError != nil || status.Revision != set.Revision() || status.LoadedAt.IsZero() {
			t.Fatalf("%d changes, %+v", len(changes), status)
		}

		write(t, path, documentOf(6))
		poll()
		ask(t, f, getUser, 6, policy.SourceFile, nil)
		if f.Version() == version || f.Set() == set || f.Status().Revision == status.Revision {
			t.Error("version, set or revision are the old ones")
		}
		if len(changes) != 1 || changes[0] != f.Set() {
			t.Errorf("OnChange was told %d times", len(changes))
		}
	})
}

func TestFileSameContentIsNoNewVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path := newFile(t, FileOptions{OnChange: func(*policy.Set) { t.Error("OnChange without a change") }})
		version, set := f.Version(), f.Set()
		if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		poll()
		write(t, path, "# a comment\n"+documentOf(4))
		poll()
		if f.Version() != version || f.Set() != set {
			t.Error("a new version of the same policies")
		}
	})
}

func TestFileNoticesRenamesAndSymlinkSwaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path := newFile(t, FileOptions{})
		write(t, path+".new", documentOf(5))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		poll()
		ask(t, f, getUser, 5, policy.SourceFile, nil)
	})
	synctest.Test(t, func(t *testing.T) { // as Kubernetes mounts a ConfigMap
		dir := t.TempDir()
		link := func(name, target string) {
			t.Helper()
			if err := errors.Join(os.Symlink(target, filepath.Join(dir, name+".new")), os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
		}
		for version, attempts := range map[string]int{"..1": 5, "..2": 6} {
			if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, version, "policies.yaml"), documentOf(attempts))
		}
		link("..data", "..1")
		link("policies.yaml", "..data/policies.yaml")
		f := openFile(t, filepath.Join(dir, "policies.yaml"), FileOptions{})
		ask(t, f, getUser, 5, policy.SourceFile, nil)
		link("..data", "..2")
		poll()
		ask(t, f, getUser, 6, policy.SourceFile, nil)
	})
}

func TestR2BrokenFileKeepsTheLastGoodOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told faults
		f, path := newFile(t, FileOptions{OnError: told.add})
		version, set := f.Version(), f.Set()
		poll()

		write(t, path, "version: 1\npolicies: {a.B: {retry: {max_atempts: 2}}}\n")
		for range 5 {
			poll()
		}
		if got := ask(t, f, getUser, 4, policy.SourceFile, nil); got == nil || f.Version() != version || f.Set() != set {
			t.Error("a broken file changed what is in force")
		}
		var broken *policyfile.Error
		if told.count() != 1 || !errors.As(f.Status().LastError, &broken) || !errors.Is(f.Status().LastError, policy.ErrPolicyFetchFailed) {
			t.Fatalf("told %d times; status: %v", told.count(), f.Status().LastError)
		}
		contains(t, told.String(), path+":2:", "max_atempts")

		write(t, path, "version: 7\n")
		poll()
		if told.count() != 2 {
			t.Errorf("another fault was told %d times", told.count()-1)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		poll()
		poll()
		if told.count() != 3 || !errors.Is(f.Status().LastError, os.ErrNotExist) {
			t.Errorf("a missing file was told %d times, status %v", told.count()-2, f.Status().LastError)
		}
		ask(t, f, getUser, 4, policy.SourceFile, nil)

		write(t, path, documentOf(4)) // what was in force before
		poll()
		if f.Status().LastError != nil || f.Version() != version {
			t.Errorf("recovered: %v, version %d", f.Status().LastError, f.Version())
		}
		if err := os.Remove(path); err != nil { // known from before, but it has worked in between
			t.Fatal(err)
		}
		poll()
		if told.count() != 4 {
			t.Error("a fault that came back was not told")
		}
	})
}

func TestFileTakesNoHalfOfAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, path := newFile(t, FileOptions{
			OnError:  func(err error) { t.Errorf("half a write is no fault: %v", err) },
			OnChange: func(s *policy.Set) { ask(t, s, getUser, 6, policy.SourceFile, nil) },
		})
		poll()
		writing := time.Now()
		for time.Since(writing) < time.Second { // a slow writer, between whose steps a poll falls
			write(t, path, "version: 1\n# "+time.Now().String()+"\n")
			time.Sleep(settle / 2)
		}
		write(t, path, documentOf(6))
		poll()
		ask(t, f, getUser, 6, policy.SourceFile, nil)
	})
}

func TestFileFirstLoadMustSucceed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	o := FileOptions{Logger: silent(), OnError: func(err error) { t.Errorf("returned and told: %v", err) }}
	if _, err := NewFile(path, o); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, policy.ErrProviderUnavailable) {
		t.Errorf("missing file: %v", err)
	}
	write(t, path, "version: 1\nfirst: 1\nsecond: 2\n")
	_, err := NewFile(path, o)
	var broken *policyfile.Error
	if !errors.As(err, &broken) || len(broken.Faults) != 2 {
		t.Errorf("broken file: %v", err)
	}
}

func TestFileReloadLooksAtOnce(t *testing.T) {
	f, path := newFile(t, FileOptions{Interval: -1})
	write(t, path, documentOf(6))
	ask(t, f, getUser, 4, policy.SourceFile, nil)
	if err := f.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, f, getUser, 6, policy.SourceFile, nil)
	write(t, path, "version: 2\n")
	if err := f.Reload(t.Context()); !errors.Is(err, policy.ErrPolicyFetchFailed) {
		t.Errorf("Reload of a broken file: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	before := f.Status()
	write(t, path, documentOf(7))
	for range 20 {
		if err := f.Reload(done); !errors.Is(err, context.Canceled) || f.Status() != before {
			t.Fatalf("Reload with a context that is done: %v, %+v", err, f.Status())
		}
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	ask(t, f, getUser, 6, policy.SourceFile, nil)
}

func TestP6FileWarningsAreLoggedOncePerContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "policies.yaml")
		write(t, path, documentOf(99)) // clamped
		var log bytes.Buffer
		f := openFile(t, path, FileOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 5 {
			poll()
		}
		_ = f.Close()
		if n := strings.Count(log.String(), "max_attempts"); n != 1 {
			t.Errorf("the warning was logged %d times:\n%s", n, &log)
		}
	})
}

func TestP8FileLimitsOfTheOperator(t *testing.T) {
	wide := policy.CallLimits()
	wide.Attempts.Max = 50
	path := filepath.Join(t.TempDir(), "policies.json")
	write(t, path, `{"version": 1, "policies": {"user-service.GetUser": {"retry": {"max_attempts": 50}}}}`)
	f := openFile(t, path, FileOptions{Limits: map[policy.Surface]policy.Limits{policy.SurfaceCall: wide}})
	ask(t, f, getUser, 50, policy.SourceFile, nil)
}
