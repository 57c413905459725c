package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// unprivileged runs a command line as a user to whom permissions apply.
func unprivileged(t *testing.T, env map[string]string, args ...string) (code int, stderr string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread, which has changed its user, ends with the goroutine
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		code, _, stderr = runIn(t.Context(), env, "", args...)
	}()
	<-done
	return code, stderr
}

// folder makes a folder that everybody can reach and write to.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAConfigFileThatThisUserCannotReadNamesTheRemedy(t *testing.T) {
	home := folder(t)
	path := filepath.Join(home, ".config", "tenet", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("color: never\n"), 0o000); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home}
	want := "tenet: config file: open " + path + ": permission denied; make it readable, or name another with --config or TENET_CONFIG\n"
	if code, errs := unprivileged(t, env, "version"); code != 2 || !strings.HasPrefix(errs, want) {
		t.Errorf("the file: code %d, %s", code, errs)
	}
	if err := os.Chmod(filepath.Dir(path), 0o000); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(path), 0o700) })
	want = "tenet: warning: config file: open " + path + ": permission denied; it is ignored: name another with --config or TENET_CONFIG, or set HOME\n"
	if code, errs := unprivileged(t, env, "version"); code != 0 || errs != want {
		t.Errorf("another user's home: code %d, %s", code, errs)
	}
	if code, errs := unprivileged(t, env, "version", "--config", path); code != 2 {
		t.Errorf("named by a flag: code %d, %s", code, errs)
	}
}

func TestAFileThatThisUserCannotReadOrWriteNamesTheRemedy(t *testing.T) {
	dir := folder(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := write("secret.yaml", "version: 1\n")
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"policy", "check", secret}, {"jobs", "import", secret, "--store", "sqlite:" + filepath.Join(dir, "jobs.db")}} {
		code, errs := unprivileged(t, nil, command...)
		if code != 1 || errs != "tenet: "+secret+" cannot be read: permission denied; make it readable for this user, or name another file\n" {
			t.Errorf("%s: code %d, %s", command[1], code, errs)
		}
	}
	document, lines := write("policies.yaml", "version: 1\nconsumers: {orders:   {loop: {}}}\n"), write("orders.jsonl", "{}\n")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	denied := " cannot be written to: permission denied; name another file, or make it and its folder writable"
	code, errs := unprivileged(t, nil, "consume", "--policy", document, "orders", "--source", "file:"+lines, "--task", "exec:true")
	if code != 1 || errs != "tenet: --source: "+lines+".offset"+denied+"; ?offsets=PATH names another file, ?forget=true keeps none\n" {
		t.Errorf("offsets: code %d, %s", code, errs)
	}
	code, errs = unprivileged(t, nil, "policy", "fmt", "--write", document)
	if code != 1 || errs != "tenet: --write: "+document+denied+"\n" {
		t.Errorf("fmt: code %d, %s", code, errs)
	}
}
