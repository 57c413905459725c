package policyfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/policy"
)

// foreignPattern matches keys that would lie in the namespaces of jobs and pipeline steps; the schema states it too.
const foreignPattern = `^(job|consumer|producer)/[^.]*\..`

var foreignForm = regexp.MustCompile(foreignPattern)

// reference is a name that something else must define.
type reference struct {
	kind, name, path string
	at               place
}

// fieldOfDeclared maps a kind to the field in which documents declare its names.
var fieldOfDeclared = map[string]string{
	"class": "classes", "classifier": "classifiers", "trigger": "triggers", "budget": "budgets",
}

// known lists by kind the names that a document may use, sorted.
func known(root map[string]any, supplied Declared) map[string][]string {
	names := map[string][]string{
		"class":      lists.Texts(append(policy.Classes(), supplied.Classes...)),
		"classifier": append([]string{"default", "http", "grpc", "exit"}, supplied.Classifiers...),
		"trigger":    append(policy.Triggers(), supplied.Triggers...),
		"budget":     slices.AppendSeq(slices.Clone(supplied.Budgets), maps.Keys(object(root, "budgets"))),
	}
	declared := object(root, "declared")
	for kind, field := range fieldOfDeclared {
		list, _ := declared[field].([]any)
		for _, name := range list {
			names[kind] = append(names[kind], name.(string))
		}
		slices.Sort(names[kind])
	}
	return names
}

// resolve reports references to undefined names.
func (r *reader) resolve(names map[string][]string) {
	for _, ref := range r.references {
		if r.faults.full() {
			return
		}
		if _, found := slices.BinarySearch(names[ref.kind], ref.name); found {
			continue
		}
		if ref.kind == "class" && policy.Class(ref.name).Known() {
			continue
		}
		problem := fmt.Sprintf("unknown %s %q", ref.kind, short(ref.name))
		remedy := fmt.Sprintf("declare it under declared.%s if code supplies it", fieldOfDeclared[ref.kind])
		if ref.kind == "budget" {
			remedy = "define it under budgets, or " + remedy
		}
		r.faults.add(ref.at, ref.path, problem, orElse(ref.name, names[ref.kind], remedy))
	}
}

// orElse puts the question whether the nearest known name was meant before a remedy.
func orElse(name string, known []string, remedy string) string {
	if match := near.Name(name, known); match != "" {
		return fmt.Sprintf("did you mean %q? Else %s", match, remedy)
	}
	return remedy
}

// short shortens a name for messages.
func short(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s[:min(len(s), 4*most)])[:most]) + "…"
}
