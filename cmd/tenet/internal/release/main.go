package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const root = "github.com/tenetdev/tenet"

func main() {
	if err := run(".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var form = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func run(dir string, args []string) error {
	if len(args) != 1 || !form.MatchString(args[0]) {
		return fmt.Errorf("%q: give one version, such as v0.5.0", args)
	}
	version := args[0]
	dirty, err := output(dir, "git", "status", "--porcelain")
	switch {
	case err != nil:
		return err
	case dirty != "":
		return errors.New("there are changes that are not committed; commit or remove them first")
	}
	taken, err := output(dir, "git", "tag", "--list", version, "*/"+version)
	switch {
	case err != nil:
		return err
	case taken != "":
		return fmt.Errorf("%s: already tagged: %s", version, strings.Join(strings.Fields(taken), " "))
	}
	modules, err := setVersion(dir, version)
	if err != nil {
		return err
	}
	if _, err := output(dir, "git", "commit", "--quiet", "--all", "--message", "release: "+version); err != nil {
		return err
	}
	tags := make([]string, len(modules))
	for i, m := range modules {
		tags[i] = m.tag(version)
		if _, err := output(dir, "git", "tag", tags[i]); err != nil {
			return err
		}
	}
	fmt.Println("git push origin HEAD", strings.Join(tags, " "))
	return nil
}

// module is a released module: its folder below the repository's root, "." for the root module.
type module struct{ folder string }

func (m module) path() string {
	if m.folder == "." {
		return root
	}
	return root + "/" + m.folder
}

func (m module) tag(version string) string {
	if m.folder == "." {
		return version
	}
	return m.folder + "/" + version
}

// setVersion makes all modules of the workspace in dir require each other in a version. The benchmarks are not released.
func setVersion(dir, version string) ([]module, error) {
	raw, err := output(dir, "go", "work", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var work struct {
		Use     []struct{ DiskPath string }
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal([]byte(raw), &work); err != nil {
		return nil, fmt.Errorf("go work edit -json: %w", err)
	}
	edit := []string{"work", "edit"}
	for _, r := range work.Replace {
		edit = append(edit, "-dropreplace="+r.Old.Path+"@"+r.Old.Version)
	}
	var modules []module
	for _, use := range work.Use {
		m := module{filepath.ToSlash(filepath.Clean(use.DiskPath))}
		if m.folder != "bench" {
			modules = append(modules, m)
			edit = append(edit, fmt.Sprintf("-replace=%s@%s=./%s", m.path(), version, m.folder))
		}
	}
	if _, err := output(dir, "go", edit...); err != nil {
		return nil, err
	}
	own := regexp.MustCompile(`(?m)^(.*` + root + `\S*) v\S+`)
	for _, use := range work.Use {
		path := filepath.Join(dir, use.DiskPath, "go.mod")
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		changed := own.ReplaceAllStringFunc(string(raw), func(line string) string {
			if strings.Contains(line, "/bench/") {
				return line
			}
			return line[:strings.LastIndex(line, " ")+1] + version
		})
		//nolint:gosec // a folder of the workspace
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			return nil, err
		}
	}
	return modules, nil
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...) //nolint:gosec // git and go, called by a maintainer
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %v: %w", name, args, err)
	}
	return string(out), nil
}
