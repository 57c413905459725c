//go:build unix

package debian

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// fake puts an apt-get into the PATH that runs a script and appends its arguments to a log. In the script, $bin is the
// folder of the PATH, which has nothing else but what a shell needs.
func fake(t *testing.T, script string) (a apt, log func() []string) {
	t.Helper()
	bin := t.TempDir()
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("TMPDIR", t.TempDir())
	text := "#!/bin/sh\nbin=" + bin + "\nshift 2\necho \"$@\" >>$bin/log\n" + script
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return apt{root: true, places: map[string][]string{"alpha": {"tenet-alpha"}, "beta": {filepath.Join(bin, "lib/*/beta")}}}, func() []string {
		raw, err := os.ReadFile(filepath.Join(bin, "log"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.FieldsFunc(string(raw), func(r rune) bool { return r == '\n' })
	}
}

const installs = `touch $bin/tenet-alpha && chmod +x $bin/tenet-alpha && mkdir -p $bin/lib/9 $bin/lib/10 && touch $bin/lib/9/beta $bin/lib/10/beta`

func TestMissingPackagesAreInstalledOnceInOneStep(t *testing.T) {
	a, log := fake(t, "sleep 0.1; "+installs)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := a.install("alpha", "beta"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := log(); len(got) != 1 || got[0] != "install -y --no-install-recommends alpha beta" {
		t.Errorf("apt-get ran %q", got)
	}
	if got := find(a.places["beta"]); filepath.Base(filepath.Dir(got)) != "10" {
		t.Errorf("found %s instead of version 10", got)
	}
}

func TestTheListsAreUpdatedOnlyWhenAPackageIsUnknown(t *testing.T) {
	a, log := fake(t, `if [ $1 = update ]; then touch $bin/updated; exit; fi; [ -e $bin/updated ] || { echo "E: Unable to locate package"; exit 100; }; `+installs)
	if err := a.install("alpha"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(log(), ", "); got != "install -y --no-install-recommends alpha, update, install -y --no-install-recommends alpha" {
		t.Errorf("apt-get ran %s", got)
	}
}

func TestAnInstallationWaitsForAnotherOne(t *testing.T) {
	a, log := fake(t, `[ -e $bin/free ] || { touch $bin/free; echo "E: Could not get lock /var/lib/apt/lists/lock."; exit 100; }; `+installs)
	if err := a.install("alpha"); err != nil {
		t.Fatal(err)
	}
	if got := log(); len(got) != 2 {
		t.Errorf("apt-get ran %q", got)
	}
}

func TestAFailureNamesThePackageAndTheRemedy(t *testing.T) {
	a, log := fake(t, `echo "E: no network"; exit 100`)
	if err := a.install("alpha"); err == nil || !strings.Contains(err.Error(), "alpha missing") || !strings.Contains(err.Error(), "no network") {
		t.Errorf("the error is %v", err)
	}
	tried := len(log())
	a.root = false
	if err := a.install("alpha", "beta"); err == nil || !strings.Contains(err.Error(), "apt-get install alpha beta as root") || len(log()) != tried {
		t.Errorf("the error of a user is %v", err)
	}
	a, _ = fake(t, "")
	if err := a.install("alpha"); err == nil || !strings.Contains(err.Error(), "without the expected program") {
		t.Errorf("the error of a package without the program is %v", err)
	}
	if _, err := Find("alpha"); err == nil {
		t.Error("the program of an unknown package is found")
	}
}
