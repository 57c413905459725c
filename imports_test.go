package tenet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tenetdev/tenet"

// allowed lists the packages of Tenet that a package may import; arrows point down only. A package that is missing here fails
// the test. Every package may import those listed under "internal".
var allowed = map[string][]string{
	"policy":             {},
	"filter":             {},
	"classify":           {"policy"},
	"decision":           {"policy", "classify"},
	"budget":             {"policy", "sharing"},
	"rollout":            {"policy"},
	"payload":            {"policy", "job"},
	"policystore":        {"rollout"},
	"internal/policysql": {"policystore", "rollout"},
	"circuit":            {"policy", "sharing"},
	"hedge":              {"policy"},
	"sharing":            {},
	"limit":              {"policy", "sharing"},
	"observe":            {"policy", "classify", "decision"},
	"adapter/otel":       {"observe", "policy", "classify", "decision"},
	"adapter/prometheus": {"observe", "policy", "classify", "decision"},
	"policyfile":         {"policy"},
	"amplify":            {"policy", "classify", "decision", "policyfile"},
	// prove asks the mechanisms themselves, so that a verdict on a budget or breaker is theirs and not a second calculation.
	"prove":                   {"policy", "classify", "decision", "policyfile", "amplify", "budget", "circuit", "hedge", "limit"},
	"controlplane":            {"policy", "policyfile", "observe", "rollout", "controlplane/protocol"},
	"controlplane/protocol":   {"rollout"},
	"idempotency":             {"policy", "classify", "decision", "observe"},
	"retry":                   {"policy", "classify", "decision", "budget", "circuit", "hedge", "limit", "sharing", "observe", "idempotency"},
	"audit":                   {"policy", "classify", "decision", "observe", "internal/printable"},
	"simulate":                {"policy", "policyfile", "classify", "retry", "job", "adapter/memory"},
	"":                        {"retry", "policy", "classify", "observe"},
	"tenettest":               {"retry", "policy", "classify", "observe", "job", "audit", "adapter/memory"},
	"adapter/http":            {"retry", "policy", "classify", "observe", "idempotency"},
	"adapter/grpc":            {"retry", "policy", "classify", "observe"},
	"adapter/nats":            {"retry", "policy", "classify", "observe", "idempotency"},
	"job":                     {"filter", "policy", "classify", "decision", "observe", "idempotency", "retry"},
	"pipeline":                {"policy", "classify", "decision", "observe", "idempotency", "retry"},
	"adapter/file":            {"pipeline", "classify"},
	"adapter/http/httpsink":   {"pipeline", "classify", "policy", "adapter/http"},
	"adapter/jobs":            {"pipeline", "job", "retry", "classify", "policy"},
	"adapter/nats/natspipe":   {"pipeline", "classify", "policy"},
	"adapter/rabbitmq":        {"pipeline", "classify", "policy"},
	"adapter/redis":           {"classify", "policy", "sharing"},
	"adapter/postgres/pgpipe": {"pipeline", "classify", "policy"},
	"pipeline/pipelinetest":   {"pipeline", "policy", "classify"},
	"adapter/http/httpjob":    {"job", "adapter/http", "internal/busy"},
	"adapter/exec":            {"job", "internal/busy"},
	"adapter/memory":          {"filter", "job", "idempotency", "policy", "policystore", "sharing"},
	"adapter/sqlite":          {"filter", "job", "idempotency", "audit", "policy", "classify", "policystore", "sharing", "internal/policysql"},
	"adapter/postgres":        {"filter", "job", "idempotency", "audit", "policy", "classify", "policystore", "sharing", "internal/policysql"},
	"adapter/nats/natspolicy": {"controlplane/protocol", "policy"},
	"adapter/nats/natsstore":  {"idempotency", "audit", "policy"},
	"storetest":               {"storetest/internal/models", "filter", "job", "idempotency", "audit", "policy", "policystore", "rollout", "sharing", "budget", "circuit", "limit", "retry"},

	"storetest/internal/models": {"job", "idempotency"},

	"server/internal/documents": {"server/api", "policy", "policyfile", "prove", "simulate", "policystore", "rollout", "controlplane/protocol"},
	"server/internal/history":   {"job"},
	"server/internal/keyring":   {"policystore", "controlplane/protocol"},
	"server/internal/params":    {},
	"server/internal/rollouts":  {"policystore", "rollout", "server/internal/documents"},
	"server/internal/redrives":  {"job", "policystore"},
	"server/internal/deliver":   {"policystore", "rollout", "controlplane/protocol", "server/api", "server/internal/keyring"},

	"internal/address":             {},
	"internal/busy":                {"job"},
	"internal/near":                {},
	"internal/lists":               {},
	"internal/wait":                {},
	"internal/argument":            {},
	"internal/testargument":        {},
	"internal/testhttp":            {},
	"internal/fields":              {},
	"internal/files":               {},
	"internal/printable":           {},
	"internal/storable":            {},
	"internal/netguard":            {},
	"internal/debian":              {},
	"internal/debian/install":      {"internal/debian"},
	"internal/testserver":          {},
	"internal/testrabbit":          {"internal/debian", "internal/testserver"},
	"internal/testredis":           {"internal/debian", "internal/testserver"},
	"adapter/nats/natstest":        {},
	"internal/testguard":           {"idempotency", "classify", "observe", "policy"},
	"internal/testobserve":         {"pipeline", "observe", "policy"},
	"internal/canonical":           {},
	"internal/secrets":             {"filter"},
	"internal/operation":           {"filter", "audit", "job", "idempotency", "policy"},
	"internal/striped":             {},
	"internal/uuidv7":              {},
	"internal/verdict":             {},
	"internal/virtual":             {},
	"internal/groupcommit":         {},
	"internal/paging":              {},
	"internal/procgroup":           {},
	"internal/migrate":             {},
	"internal/testpg":              {"internal/debian", "internal/testserver"},
	"cmd/tenet/internal/crashtest": {"*"},
	"cmd/tenet/internal/release":   {},
	"cmd/tenet":                    {"*"},
	"server":                       {"server/api", "server/internal/documents", "server/internal/deliver", "server/internal/rollouts", "server/internal/redrives", "server/internal/keyring", "server/internal/history", "controlplane/protocol", "adapter/http", "audit", "filter", "idempotency", "job", "policy", "policyfile", "policystore", "rollout", "simulate", "internal/operation"},
	"server/api":                   {"filter", "job", "idempotency", "audit", "policy", "policyfile", "policystore", "prove", "rollout"},
	"server/ui":                    {"server", "server/api", "server/client", "server/internal/params", "audit", "decision", "filter", "idempotency", "job", "policy", "policyfile", "policystore", "prove", "rollout", "simulate"},
	"server/examples/rollout":      {"*"},
	"server/client":                {"server/api", "server/internal/params", "adapter/http", "retry", "policy", "classify", "job", "idempotency", "audit", "policystore", "simulate"},
}

// internals may be imported by any package above them.
var internals = []string{"internal/near", "internal/lists", "internal/fields", "internal/canonical", "internal/procgroup", "internal/migrate", "internal/striped", "internal/netguard", "internal/files", "internal/address", "internal/argument", "internal/uuidv7", "internal/verdict", "internal/virtual", "internal/wait", "internal/groupcommit", "internal/paging", "internal/secrets", "internal/storable"}

// vendors lists the only folders whose packages may import an SDK, except in tests: the code for a technology is in its
// adapter, and documents are read in one place.
var vendors = map[string][]string{
	"github.com/jackc":           {"adapter/postgres"},
	"github.com/nats-io":         {"adapter/nats"},
	"github.com/prometheus":      {"adapter/prometheus", "cmd/tenet", "server"}, // the worker and the server serve /metrics
	"github.com/rabbitmq":        {"adapter/rabbitmq"},
	"github.com/redis":           {"adapter/redis"},
	"github.com/rogpeppe":        {}, // test scripts
	"github.com/spf13":           {"cmd/tenet"},
	"github.com/jedib0t":         {"cmd/tenet"},
	"github.com/mattn":           {"cmd/tenet"},
	"go.opentelemetry.io":        {"adapter/otel", "cmd/tenet"}, // the command exports its telemetry
	"go.yaml.in/yaml":            {"policyfile", "cmd/tenet"},
	"google.golang.org":          {"adapter/grpc"},
	"modernc.org":                {"adapter/sqlite"},
	"github.com/google/uuid":     {"internal", "server", "cmd/tenet"},
	"github.com/klauspost":       {"payload"},
	"github.com/gowebpki":        {"internal"},
	"github.com/robfig":          {"job"},
	"github.com/aymanbagabas":    {"server"},
	"github.com/anishathalye":    {"storetest"},
	"github.com/google/go-cmp":   {"storetest", "pipeline/pipelinetest", "internal"},
	"pgregory.net/rapid":         {"storetest", "pipeline/pipelinetest", "internal"},
	"go.uber.org/goleak":         {"storetest", "pipeline/pipelinetest", "internal"},
	"golang.org/x/sys":           {"internal"},
	"golang.org/x/net":           {},
	"github.com/santhosh-tekuri": {},
	"github.com/danielgtaylor":   {"server"},
	"github.com/chromedp":        {}, // tests of the web UI
	"github.com/coreos":          {"server"},
	"golang.org/x/oauth2":        {"server"},
	"golang.org/x/time":          {"server"},
}

type goPackage struct {
	ImportPath, Name           string
	Dir                        string
	Imports, Deps, TestGoFiles []string
	XTestGoFiles               []string
	GoFiles                    []string
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	raw, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		t.Fatalf("go list %v: %v", args, err)
	}
	return string(raw)
}

// packages lists the packages that match the patterns. Without a pattern it lists those of all modules except bench.
func packages(t *testing.T, patterns ...string) []goPackage {
	t.Helper()
	if len(patterns) == 0 {
		for _, dir := range strings.Fields(goList(t, "-m", "-f", "{{.Dir}}")) {
			if filepath.Base(dir) != "bench" {
				patterns = append(patterns, dir+"/...")
			}
		}
	}
	raw := goList(t, append([]string{"-json=ImportPath,Name,Dir,Imports,Deps,TestGoFiles,XTestGoFiles,GoFiles"}, patterns...)...)
	var list []goPackage
	for decoder := json.NewDecoder(strings.NewReader(raw)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func short(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func TestImportsPointDownOnly(t *testing.T) {
	for _, p := range packages(t) {
		name := short(p.ImportPath)
		if command(name) {
			name = "cmd/tenet"
		}
		may, listed := allowed[name]
		if !listed {
			t.Errorf("package %q is not in the table of imports_test.go", name)
			continue
		}
		for _, imported := range p.Imports {
			checkVendor(t, name, imported)
			own := short(imported)
			if !strings.HasPrefix(imported, module) || slices.Contains(internals, own) || slices.Contains(may, "*") {
				continue
			}
			if !slices.Contains(may, own) {
				t.Errorf("%s imports %s, which the table does not allow", name, own)
			}
		}
	}
}

// command reports whether a package belongs to the command, whose own packages are listed as one.
func command(name string) bool { return name == "cmd/tenet" || strings.HasPrefix(name, "cmd/tenet/") }

func checkVendor(t *testing.T, name, imported string) {
	t.Helper()
	if domain, _, _ := strings.Cut(imported, "/"); !strings.Contains(domain, ".") || strings.HasPrefix(imported, module) {
		return
	}
	for prefix, folders := range vendors {
		if strings.HasPrefix(imported, prefix) {
			if !slices.ContainsFunc(folders, func(folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }) {
				t.Errorf("%s imports %s; only %v may", name, imported, folders)
			}
			return
		}
	}
	t.Errorf("%s imports %s, which is not in the table of imports_test.go", name, imported)
}

// TestTheRootModuleNeedsNoSDK: importing tenet, retry, job or pipeline adds the root module's requirements, including those of
// tests.
func TestTheRootModuleNeedsNoSDK(t *testing.T) {
	may := []string{
		"github.com/anishathalye/porcupine", "github.com/google/go-cmp", "github.com/google/uuid", "github.com/gowebpki/jcs",
		"github.com/robfig/cron/v3", "github.com/santhosh-tekuri/jsonschema/v6", "go.uber.org/goleak", "go.yaml.in/yaml/v4",
		"github.com/klauspost/compress",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text", "pgregory.net/rapid",
	}
	raw, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/\S+) v`).FindAllStringSubmatch(string(raw), -1) {
		if path := strings.TrimPrefix(found[1], "require "); !slices.Contains(may, path) {
			t.Errorf("go.mod requires %s; move the code that needs it into an adapter", path)
		}
	}
}

// TestDoLinksNoYAMLNoHTTPNoSDK checks that a program that uses tenet.Do does not link these packages.
func TestDoLinksNoYAMLNoHTTPNoSDK(t *testing.T) {
	banned := []string{"go.yaml.in", "net/http", "go.opentelemetry.io", "github.com/prometheus", "google.golang.org", "database/sql"}
	for _, p := range packages(t, ".") {
		for _, dep := range p.Deps {
			for _, b := range banned {
				if dep == b || strings.Contains(b, ".") && strings.HasPrefix(dep, b+"/") {
					t.Errorf("tenet links %s", dep)
				}
			}
		}
	}
}

// TestNothingIsStartedByImporting checks that packages have no init functions.
func TestNothingIsStartedByImporting(t *testing.T) {
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			if raw, err := os.ReadFile(filepath.Join(p.Dir, file)); err != nil || strings.Contains(string(raw), "\nfunc init()") {
				t.Errorf("%s/%s has an init function (%v)", short(p.ImportPath), file, err)
			}
		}
	}
}

// TestEveryPackageIsDocumented checks that each package has a doc.go, and each public package an example.
func TestEveryPackageIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		name := short(p.ImportPath)
		if strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "server/examples/") {
			continue
		}
		if !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go", name)
		}
		if strings.Contains("/"+name, "/internal/") {
			continue
		}
		if !slices.ContainsFunc(append(p.XTestGoFiles, p.TestGoFiles...), func(f string) bool { return strings.HasPrefix(f, "example") }) {
			t.Errorf("%s has no example_test.go", name)
		}
	}
}
