package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// need is a classifier, or a group of classes, that a program must register for a document to work.
type need struct {
	of    string // the package that provides it; "" for none
	names []string
	at    policyfile.Fault
}

// needsCode warns of the classifiers and classes in a document that are not built in. Unless a program registers them, calls,
// jobs and steps are not retried as the document says.
func needsCode(file string, d *policyfile.Document) []policyfile.Fault {
	var classifiers, classes []*need
	anyKey := []policy.Key{{Name: "any"}, policy.JobKey("any", "any")} // stand for keys that have only the defaults
	for _, key := range append(d.Set.Keys(), anyKey...) {
		p := cli.PolicyOf(d.Set, key)
		place := func(field string) policyfile.Fault {
			path, line := d.Origin(key, field)
			return policyfile.Fault{File: file, Line: line, Column: 1, Path: path, Warning: true}
		}
		if name := p.Retry.ClassifierName; name != "" {
			if of, builtIn := classifierPackage(name); !builtIn {
				classifiers = needed(classifiers, of, name, place("retry.classifier"))
			}
		}
		for field, list := range map[string][]policy.Class{"retry.retry_on": p.Retry.RetryOn, "retry.abort_on": p.Retry.AbortOn} {
			for _, c := range list {
				if of, builtIn := classPackage(c); !builtIn {
					classes = needed(classes, of, string(c), place(field))
				}
			}
		}
	}
	return append(warnings(classifiers, "classifier", "Classifier", "Classifiers"), warnings(classes, "class", "Classes", "Classes")...)
}

// needed adds a name to the need with the same package, and keeps the first place. Names without a place in the document come
// from the catalog and need no warning.
func needed(list []*need, of, name string, at policyfile.Fault) []*need {
	if at.Path == "" {
		return list
	}
	i := slices.IndexFunc(list, func(n *need) bool { return n.of == of && (of != "" || slices.Contains(n.names, name)) })
	if i < 0 {
		return append(list, &need{of, []string{name}, at})
	}
	n := list[i]
	if !slices.Contains(n.names, name) {
		n.names = append(n.names, name)
	}
	if at.Line < n.at.Line {
		n.at = at
	}
	return list
}

// warnings returns a warning with a remedy for each need. function is the function that returns it, and option the field of
// retry.ExecutorOptions that takes it.
func warnings(list []*need, kind, function, option string) []policyfile.Fault {
	slices.SortFunc(list, func(a, b *need) int { return cmp.Compare(a.at.Line, b.at.Line) })
	var out []policyfile.Fault
	for _, n := range list {
		slices.Sort(n.names)
		f := n.at
		f.Problem = fmt.Sprintf("%s %s has no effect unless the program registers it", kind, strings.Join(n.names, ", "))
		f.Remedy = fmt.Sprintf("register your own in retry.ExecutorOptions.%s", option)
		switch n.of {
		case "":
		case stores:
			f.Remedy = fmt.Sprintf("workers register those of their store; elsewhere, put Classes() of adapter/postgres or adapter/sqlite into retry.ExecutorOptions.%s", option)
		default:
			f.Remedy = fmt.Sprintf("the clients of package %s register it; elsewhere, put %s.%s() into retry.ExecutorOptions.%s", n.of, n.of, function, option)
		}
		out = append(out, f)
	}
	return out
}

// classifierPackage returns the package that provides a classifier.
func classifierPackage(name string) (of string, builtIn bool) {
	switch name {
	case "default", "exit":
		return "", true
	case "http", "grpc", "nats":
		return "tenet" + name, false
	}
	return "", false
}

// stores stands for the packages of the SQL stores.
const stores = "store"

// classPackage returns the package that provides a class.
func classPackage(c policy.Class) (of string, builtIn bool) {
	switch {
	case c.Within(policy.ClassHTTP4xx), c.Within(policy.ClassHTTP5xx):
		return "tenethttp", false
	case c.Within(policy.ClassGRPC):
		return "tenetgrpc", false
	case c.Within(policy.ClassNATS):
		return "tenetnats", false
	case c.Within(policy.ClassSQL):
		return stores, false
	}
	return "", c.Known()
}
