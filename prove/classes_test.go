package prove

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// TestT1RetriedHTTPClassesAreThoseOfTheClassifier asks the production classifier about every status that has a class, as an error and
// as a response, for methods that may be repeated and others.
func TestT1RetriedHTTPClassesAreThoseOfTheClassifier(t *testing.T) {
	for status := 400; status <= 599; status++ {
		class, retried := policy.HTTPClass(status), false
		for _, method := range []string{"GET", "PUT", "POST", "PATCH"} {
			for _, key := range []bool{false, true} {
				o := tenethttp.Classifier().Classify(nil, &tenethttp.StatusError{Method: method, StatusCode: status, IdempotencyKey: key})
				retried = retried || o.Kind == classify.Retryable
			}
		}
		if parts, owned := retriedBy("http", class); !owned || (len(parts) > 0) != retried {
			t.Errorf("%s: the classifier retries it: %t; listed %v", class, retried, parts)
		}
	}
}

// TestT1RetriedGRPCClassesAreThoseOfTheClassifier reads the source of the classifier, which lies in a module that this one may not
// require: the codes of the cases that make a result retryable.
func TestT1RetriedGRPCClassesAreThoseOfTheClassifier(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../adapter/grpc/classifier.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var retried []policy.Class
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "judge" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok && uses(c, "Retryable") {
				for _, e := range c.List {
					retried = append(retried, "grpc_"+policy.Class(snake(e.(*ast.SelectorExpr).Sel.Name)))
				}
			}
			return true
		})
	}
	slices.Sort(retried)
	if listed := slices.Sorted(slices.Values(grpcRetried)); !slices.Equal(retried, listed) {
		t.Errorf("the classifier retries %v, listed %v", retried, listed)
	}
}

func uses(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		found = found || ok && s.Sel.Name == name
		return true
	})
	return found
}

// snake writes ResourceExhausted as resource_exhausted.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func TestT1ClassesAreJudgedWithTheClassifier(t *testing.T) {
	for retry, want := range map[string]string{
		"classifier: http, retry_on: [http_404, http_503]":                       `violated: a.B: class "http_404" is retried only where the error asks for a wait: classifier "http" takes it for final`,
		"classifier: http, retry_on: [http_4xx], abort_on: [http_429]":           `holds: a.B: no class of retry_on and abort_on is ruled out by another one, and none of retry_on by classifier "http"`,
		"classifier: http, retry_on: [http_4xx], abort_on: [http_429, http_408]": `violated: a.B: class "http_4xx" is retried only where the error asks for a wait: abort_on holds all of it that classifier "http" retries`,
		"classifier: http, retry_on: [grpc_unavailable, timeout]":                `holds: a.B: no class of retry_on and abort_on is ruled out by another one, and none of retry_on by classifier "http"; it does not look at grpc_unavailable, which counts only in errors that it retries for another reason`,
		"classifier: http, retry_on: [http_503], abort_on: [http_404]":           `holds: a.B: no class of retry_on and abort_on is ruled out by another one, and none of retry_on by classifier "http"`,
		"classifier: grpc, retry_on: [grpc_not_found]":                           `violated: a.B: class "grpc_not_found" is retried only where the error asks for a wait: classifier "grpc" takes it for final`,
		"classifier: grpc, retry_on: [grpc]":                                     `holds: a.B: no class of retry_on and abort_on is ruled out by another one, and none of retry_on by classifier "grpc"`,
		"classifier: own, retry_on: [http_404]":                                  `holds: a.B: no class of retry_on and abort_on is ruled out by another one; what classifier "own" retries is not known here`,
		"retry_on: [http_404]":                                                   `holds: a.B: no class of retry_on and abort_on is ruled out by another one`,
	} {
		text := "version: 1\ndeclared: {classifiers: [own]}\npolicies:\n  a.B: {retry: {" + retry + "}}\n"
		d, err := policyfile.Parse("p", []byte(text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := Document(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Code == "class-never-matches" })
		if got := fmt.Sprintf("%s: %s", list[i].Verdict, list[i].Message); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", retry, got, want)
		}
		if c := list[i].Counterexample; c != nil {
			for _, step := range c.Steps {
				if !strings.HasPrefix(step.Answer, "non_retryable by ") {
					t.Errorf("%s: %s", retry, step)
				}
			}
		}
	}
}
