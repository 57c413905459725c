package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	modversion "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const version = "v0.99.0"

// publish writes the tracked files of the repository into a file-system module proxy, as a release would publish them, and
// returns an environment in which the go command uses the proxy.
func publish(t *testing.T) []string {
	t.Helper()
	source, proxy := t.TempDir(), t.TempDir()
	const repository = "../../../.."
	files, err := output(repository, "git", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range strings.Fields(files) {
		raw, err := os.ReadFile(filepath.Join(repository, path))
		if os.IsNotExist(err) {
			continue // deleted and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(source, path), string(raw))
	}
	modules, err := setVersion(source, version)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		at := filepath.Join(proxy, m.path(), "@v")
		mod, err := os.ReadFile(filepath.Join(source, m.folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(at, "list"), version+"\n")
		write(t, filepath.Join(at, version+".info"), fmt.Sprintf("{\"Version\":%q}", version))
		write(t, filepath.Join(at, version+".mod"), string(mod))
		archive, err := os.Create(filepath.Join(at, version+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		err = zip.CreateFromDir(archive, modversion.Version{Path: m.path(), Version: version}, filepath.Join(source, m.folder))
		if closeErr := archive.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
	}
	env, err := output(".", "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(env), "\n")
	cache := t.TempDir()
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", cache).Run() }) // the go command makes the module cache read-only
	return append(os.Environ(),
		"GOWORK=off", "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"), "GOSUMDB=off", "GOMODCACHE="+cache,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(lines[0], "cache", "download")+","+lines[1])
}

// consumer makes a module that requires a module of Tenet and imports packages of it.
func consumer(t *testing.T, required string, imports ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("module consumer\n\ngo 1.26.0\n\nrequire %s %s\n", required, version))
	text := "package main\n\nimport (\n"
	for _, path := range imports {
		text += fmt.Sprintf("\t_ %q\n", path)
	}
	write(t, filepath.Join(dir, "main.go"), text+")\n\nfunc main() {}\n")
	return dir
}

func command(t *testing.T, env []string, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestAConsumerGetsOnlyTheSDKsThatItUses(t *testing.T) {
	env := publish(t)
	sdks := []string{"grpc", "opentelemetry", "prometheus", "nats", "amqp", "jackc/pgx", "modernc.org/sqlite", "redis/go-redis"}
	for name, c := range map[string]struct {
		required string
		imports  []string
		may      string
	}{
		"core":     {required: root, imports: []string{root, root + "/retry", root + "/job", root + "/pipeline"}},
		"postgres": {required: root + "/adapter/postgres", imports: []string{root + "/adapter/postgres"}, may: "jackc/pgx"},
		"sqlite":   {required: root + "/adapter/sqlite", imports: []string{root + "/adapter/sqlite"}, may: "modernc.org/sqlite"},
		"redis":    {required: root + "/adapter/redis", imports: []string{root + "/adapter/redis"}, may: "redis/go-redis"},
		"nats":     {required: root + "/adapter/nats", imports: []string{root + "/adapter/nats"}, may: "nats"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := consumer(t, c.required, c.imports...)
			modules := command(t, env, dir, "go", "list", "-m", "all")
			for _, sdk := range sdks {
				if strings.Contains(modules, sdk) != (sdk == c.may) {
					t.Errorf("%s: want it %v in\n%s", sdk, sdk == c.may, modules)
				}
			}
			t.Logf("%d modules", strings.Count(modules, "\n")-1)
			if name == "core" {
				command(t, env, dir, "go", "list", "-deps", ".") // every import is found
			}
			if name == "core" && !testing.Short() {
				command(t, env, dir, "go", "build", "-o", os.DevNull, ".")
			}
		})
	}
}

func TestTheCommandCanBeInstalledByVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("rebuilds everything, which takes minutes; part of make soak")
	}
	env, bin := publish(t), t.TempDir()
	command(t, append(env, "GOBIN="+bin), bin, "go", "install", root+"/cmd/tenet@"+version)
	if got := command(t, env, bin, filepath.Join(bin, "tenet"), "version"); !strings.HasPrefix(got, "tenet "+version) {
		t.Errorf("tenet version prints %q", got)
	}
}

func TestARelease(t *testing.T) {
	dir := t.TempDir()
	for path, content := range map[string]string{
		"go.work":          "go 1.26.0\n\nuse (\n\t.\n\t./adapter/x\n\t./bench\n)\n\nreplace " + root + " v0.1.0 => ./\n",
		"go.mod":           "module " + root + "\n",
		"adapter/x/go.mod": "module " + root + "/adapter/x\n\nrequire " + root + " v0.1.0\n",
		"bench/go.mod":     "module " + root + "/bench\n\nrequire (\n\t" + root + " v0.1.0\n\t" + root + "/bench/y v0.0.0\n)\n",
	} {
		write(t, filepath.Join(dir, path), content)
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"config", "user.name", "T"}, {"config", "user.email", "t@example.com"}, {"add", "-A"}, {"commit", "-q", "-m", "first"},
	} {
		if _, err := output(dir, "git", args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range [][]string{nil, {"1.0"}, {"v1.0"}, {"v1.0.0", "v1.0.1"}} {
		if err := run(dir, wrong); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if err := run(dir, []string{"v0.2.0"}); err != nil {
		t.Fatal(err)
	}
	tags, err := output(dir, "git", "tag", "--points-at", "HEAD")
	if err != nil || tags != "adapter/x/v0.2.0\nv0.2.0\n" {
		t.Errorf("%v, tags:\n%s", err, tags)
	}
	for path, want := range map[string]string{
		"adapter/x/go.mod": root + " v0.2.0\n", "bench/go.mod": root + " v0.2.0\n\t" + root + "/bench/y v0.0.0\n", "go.work": root + " v0.2.0 => ./",
	} {
		if raw, err := os.ReadFile(filepath.Join(dir, path)); err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s lacks %q (%v):\n%s", path, want, err, raw)
		}
	}
	head := func() string {
		t.Helper()
		state, err := output(dir, "git", "log", "-1", "--format=%H %D")
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	before := head()
	if _, err := output(dir, "git", "tag", "adapter/x/v0.4.0", "HEAD~"); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, []string{"v0.4.0"}); err == nil || !strings.Contains(err.Error(), "adapter/x/v0.4.0") || head() != before {
		t.Errorf("a release with a tag that exists: %v; from %sto %s", err, before, head())
	}
	write(t, filepath.Join(dir, "new"), "")
	if err := run(dir, []string{"v0.3.0"}); err == nil {
		t.Error("a release with uncommitted changes was accepted")
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
