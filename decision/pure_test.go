package decision_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tenetdev/tenet/"

// decisionImports lists everything that package decision may import.
var decisionImports = []string{
	"crypto/sha256", "encoding/binary", "math", "math/bits", "slices", "time", module + "classify", module + "policy",
}

// pureImports lists further packages that decision's imports from this module may use. They only compute.
var pureImports = []string{
	"bytes", "cmp", "encoding/hex", "encoding/json", "errors", "fmt", "maps", "reflect", "regexp", "strconv", "strings", "sync", "unicode/utf8",
	"crypto/tls", "crypto/x509", "github.com/gowebpki/jcs",
}

// pureNames lists the names that may be used from packages that can also read a clock or do I/O: only types, error values and
// units.
var pureNames = map[string][]string{
	"time":    {"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour", "ParseDuration"},
	"context": {"Context", "Canceled", "DeadlineExceeded"},
	"io":      {"EOF", "ErrUnexpectedEOF"},
	"net":     {"Error", "OpError", "DNSError"},
	"os":      {"ErrDeadlineExceeded"},
	"syscall": {"ECONNREFUSED", "ECONNRESET", "EPIPE", "Errno"},
	"tls":     {"CertificateVerificationError", "RecordHeaderError", "AlertError"},
	"x509":    {"UnknownAuthorityError", "HostnameError", "CertificateInvalidError"},
}

// impurities lists the forbidden imports and uses of a source file, and the packages of this module that it imports. In
// package decision itself only decisionImports are allowed.
func impurities(name string, source any, direct bool) (faults, inside []string, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, nil, err
		}
		_, guarded := pureNames[path]
		if spec.Name != nil {
			faults = append(faults, fmt.Sprintf("%s: %s is imported under another name", fset.Position(spec.Pos()), path))
		}
		if !slices.Contains(decisionImports, path) && (direct || !guarded && !slices.Contains(pureImports, path) && !strings.HasPrefix(path, module)) {
			faults = append(faults, fmt.Sprintf("%s: import of %s", fset.Position(spec.Pos()), path))
		}
		if folder, ok := strings.CutPrefix(path, module); ok {
			inside = append(inside, folder)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			_, goroutine := n.(*ast.GoStmt)
			if goroutine {
				faults = append(faults, fmt.Sprintf("%s: go statement", fset.Position(n.Pos())))
			}
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok {
			if allowed, guarded := pureNames[of.Name]; guarded && !slices.Contains(allowed, selector.Sel.Name) {
				faults = append(faults, fmt.Sprintf("%s: use of %s.%s", fset.Position(n.Pos()), of.Name, selector.Sel.Name))
			}
		}
		return true
	})
	return faults, inside, nil
}

func TestD3DecisionReadsNoClockNoRandomnessAndDoesNoIO(t *testing.T) {
	seen := map[string]bool{"decision": true}
	for queue := []string{"decision"}; len(queue) > 0; queue = queue[1:] {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(queue[0]), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		sources := 0
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			sources++
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			faults, inside, err := impurities(name, text, queue[0] == "decision")
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faults {
				t.Error(fault)
			}
			for _, folder := range inside {
				if !seen[folder] {
					seen[folder] = true
					queue = append(queue, folder)
				}
			}
		}
		if sources == 0 {
			t.Errorf("no sources in %s", queue[0])
		}
	}
	for _, folder := range []string{"policy", "classify"} {
		if !seen[folder] {
			t.Errorf("%s was not checked", folder)
		}
	}
}

// TestD3ImpuritiesAreFound checks the check.
func TestD3ImpuritiesAreFound(t *testing.T) {
	sources := map[string]string{
		"time.Now":       "import \"time\"\nvar _ = time.Now()",
		"time.Since":     "import \"time\"\nvar _ = time.Since",
		"time.Until":     "import \"time\"\nvar _ = time.Until",
		"time.Sleep":     "import \"time\"\nfunc f() { time.Sleep(1) }",
		"time.After":     "import \"time\"\nfunc f() { <-time.After(1) }",
		"time.AfterFunc": "import \"time\"\nvar _ = time.AfterFunc",
		"time.NewTimer":  "import \"time\"\nvar _ = time.NewTimer",
		"time.NewTicker": "import \"time\"\nvar _ = time.NewTicker",
		"time.Tick":      "import \"time\"\nvar _ = time.Tick",
		"time.Time":      "import \"time\"\nvar _ time.Time",
		"math/rand":      "import \"math/rand\"\nvar _ = rand.Int",
		"math/rand/v2":   "import \"math/rand/v2\"\nvar _ = rand.Int",
		"crypto/rand":    "import \"crypto/rand\"\nvar _ = rand.Read",
		"os":             "import \"os\"\nvar _ = os.ErrDeadlineExceeded",
		"os.Getenv":      "import \"os\"\nvar _ = os.Getenv",
		"io":             "import \"io\"\nvar _ = io.EOF",
		"net.Dial":       "import \"net\"\nvar _ = net.Dial",
		"runtime":        "import \"runtime\"\nvar _ = runtime.NumCPU",
		"another name":   "import clock \"time\"\nvar _ = clock.Now",
		"dot import":     "import . \"time\"\nvar _ = Now",
		"goroutine":      "func f() { go f() }",
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			faults, _, err := impurities("x.go", "package x\n"+source, true)
			if err != nil {
				t.Fatal(err)
			}
			if len(faults) == 0 {
				t.Error("not found")
			}
		})
	}
	for _, source := range []string{"import \"os\"\nvar _ = os.Getenv", "import \"time\"\nvar _ = time.Now", "import \"math/rand\"\nvar _ = rand.Int"} {
		if faults, _, err := impurities("x.go", "package x\n"+source, false); err != nil || len(faults) == 0 {
			t.Errorf("not found in a package that decision imports: %s, %v", source, err)
		}
	}
	clean := "package x\nimport (\"time\"; \"math\")\nvar _ = time.Second * math.MaxInt8"
	if faults, _, err := impurities("x.go", clean, true); err != nil || len(faults) > 0 {
		t.Errorf("clean code is rejected: %v, %v", faults, err)
	}
}
