//go:build unix

package debian

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// emulator runs 386 programs on machines whose kernel cannot. Few machines need it, so only Find installs it.
const emulator = "qemu-user"

// programs lists the packages that tests need, each with the places of the program that shows that it is installed: an
// absolute pattern, or a name in the PATH. The first place that has it counts.
func programs() map[string][]string {
	return map[string][]string{
		"chromium-headless-shell": {"/usr/lib/chromium/chromium-headless-shell", "chromium"}, // the first does two thirds of the work
		"fonts-dejavu-core":       {"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"},       // without a font, pages show nothing
		"postgresql":              {"/usr/lib/postgresql/*/bin/initdb", "initdb"},
		"redis-server":            {"redis-server"},
		emulator:                  {"qemu-i386"},
		"rabbitmq-server":         {"/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"}, // Debian's wrapper in the PATH changes the user
	}
}

// Find returns the path of a package's program: the newest, if several versions are installed. Where there is none, it
// installs the package. It is safe for concurrent use, also by several processes.
func Find(pkg string) (string, error) {
	places, ok := programs()[pkg]
	if !ok {
		return "", fmt.Errorf("debian: no program of a package %s is known", pkg)
	}
	if path := find(places); path != "" {
		return path, nil
	}
	if err := (apt{root: os.Geteuid() == 0, places: programs()}).install(pkg); err != nil {
		return "", fmt.Errorf("debian: %w", err)
	}
	return find(places), nil
}

// FindAll installs the packages of all programs that are missing, but for the emulator.
func FindAll() error {
	a := apt{root: os.Geteuid() == 0, places: programs()}
	delete(a.places, emulator)
	if err := a.install(slices.Sorted(maps.Keys(a.places))...); err != nil {
		return fmt.Errorf("debian: %w", err)
	}
	return nil
}

// find returns the first place's newest path, or "".
func find(places []string) string {
	for _, place := range places {
		if !filepath.IsAbs(place) {
			if path, err := exec.LookPath(place); err == nil {
				return path
			}
			continue
		}
		if found, _ := filepath.Glob(place); len(found) > 0 {
			return slices.MaxFunc(found, func(a, b string) int { // version 10 is newer than 9
				return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
			})
		}
	}
	return ""
}

// apt installs packages.
type apt struct {
	root   bool
	places map[string][]string // of programs, by package
}

// install installs those of some packages whose programs are missing.
func (a apt) install(pkgs ...string) error {
	if pkgs = a.missing(pkgs); len(pkgs) == 0 {
		return nil
	}
	if !a.root {
		return fmt.Errorf("%[1]s missing: run apt-get install %[1]s as root, or the tests as root, which then install it", strings.Join(pkgs, " "))
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if pkgs = a.missing(pkgs); len(pkgs) == 0 { // another process has installed them meanwhile
		return nil
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, pkgs...)
	if aptGet(install...) != nil { // the lists of packages are missing or old
		if err := errors.Join(aptGet("update"), aptGet(install...)); len(a.missing(pkgs)) > 0 && err != nil {
			return fmt.Errorf("%s missing: %w", strings.Join(pkgs, " "), err)
		}
	}
	if rest := a.missing(pkgs); len(rest) > 0 {
		return fmt.Errorf("%s installed, but without the expected program", strings.Join(rest, " "))
	}
	return nil
}

func (a apt) missing(pkgs []string) []string {
	return slices.DeleteFunc(slices.Clone(pkgs), func(pkg string) bool { return find(a.places[pkg]) != "" })
}

// aptGet runs apt-get once no other process installs packages. apt-get itself waits for the lock of the installed
// packages, but not for that of the lists.
func aptGet(args ...string) error {
	const lockTimeout, poll = 10 * time.Minute, time.Second
	for end := time.Now().Add(lockTimeout); ; time.Sleep(poll) {
		cmd := exec.Command("apt-get", append([]string{"-o", fmt.Sprint("DPkg::Lock::Timeout=", lockTimeout.Seconds())}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if !strings.Contains(string(out), "Could not get lock") || time.Now().After(end) {
			return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
}

// lock waits until no other process of tests installs packages.
func lock() (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "tenet-packages.lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file.Name(), err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
