package main

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// object is one kind of object in documents.
type object struct {
	Type reflect.Type
	path string // of its first occurrence
}

func (o object) name() string { return o.Type.Name() }

// objects lists every kind of object that a document can hold, outermost first.
func objects() []object {
	list := []object{{reflect.TypeFor[policyfile.File](), ""}}
	seen := map[reflect.Type]bool{list[0].Type: true}
	for i := 0; i < len(list); i++ {
		for _, f := range fields.Of(list[i].Type) {
			t, path := f.Type, strings.TrimPrefix(list[i].path+"."+f.Name, ".")
			switch t.Kind() {
			case reflect.Map:
				t, path = t.Elem(), path+".NAME"
			case reflect.Slice:
				t, path = t.Elem(), path+"[]"
			}
			if t.Kind() == reflect.Struct && !seen[t] {
				seen[t] = true
				list = append(list, object{t, path})
			}
		}
	}
	return list
}

// reference writes a table per object.
func reference(comments map[string]string) []byte {
	var b bytes.Buffer
	for _, o := range objects() {
		title, about := "`"+o.path+"`", comments[o.name()]
		if o.path == "" {
			title, about = "The document", "The top of a document."
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| field | type | default | limits | meaning |\n|---|---|---|---|---|\n", title, about)
		for _, f := range fields.Of(o.Type) {
			byDefault, meaning := split(comments[o.name()+"."+f.Name])
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, typeName(f), byDefault, accepted(f), meaning)
		}
		b.WriteString("\n")
	}
	limits(&b)
	catalog(&b)
	return b.Bytes()
}

// split takes the sentence that names the default out of a comment.
func split(comment string) (byDefault, meaning string) {
	match := defaultSentence.FindStringSubmatchIndex(comment)
	if match == nil {
		return "", comment
	}
	return comment[match[2]:match[3]], strings.TrimSpace(comment[:match[0]] + comment[match[1]:])
}

var defaultSentence = regexp.MustCompile(`Default:? (.*?)\.(?: |$)`)

func typeName(f fields.Field) string {
	switch kind := f.Type.Kind(); {
	case fields.IsDuration(f.Type):
		return "duration"
	case kind == reflect.Map && f.Type.Elem().Kind() == reflect.Struct:
		return "objects by name"
	case kind == reflect.Map, kind == reflect.Struct:
		return "object"
	case kind == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		return "list of objects"
	case kind == reflect.Slice:
		return "list of names"
	case kind == reflect.Int:
		return "integer"
	case kind == reflect.Float64:
		return "number"
	case kind == reflect.Bool:
		return "boolean"
	}
	return "string"
}

// accepted describes the values that a field accepts.
func accepted(f fields.Field) string {
	var parts []string
	if f.Type == reflect.TypeFor[policy.Category]() {
		parts = append(parts, "a name or code of the catalog below")
	} else if enum, ok := reflect.Zero(f.Type).Interface().(interface{ Values() []string }); ok {
		parts = append(parts, strings.Join(enum.Values(), ", "))
	}
	r := f.Rule
	switch {
	case r.Reserved:
		parts = append(parts, "must not be set")
	case !math.IsInf(r.Min, 0):
		parts = append(parts, "at least "+strconv.FormatFloat(r.Min, 'f', -1, 64))
	case r.Positive:
		parts = append(parts, "above 0")
	}
	if !math.IsInf(r.Max, 0) {
		parts = append(parts, "at most "+strconv.FormatFloat(r.Max, 'f', -1, 64))
	}
	if r.Null {
		parts = append(parts, "null")
	}
	return strings.Join(parts, ", ")
}

func limits(b *bytes.Buffer) {
	b.WriteString("## Limits\n\nA value outside these limits is clamped with a warning; a value that the tables above exclude is an error. `limits` in a document may only tighten them. Shown as default (lowest … highest).\n\n")
	b.WriteString("| | calls | jobs | steps |\n|---|---|---|---|\n")
	surfaces := []policy.Limits{policy.CallLimits(), policy.JobLimits(), policy.StepLimits()}
	rowOf := func(n int, name string, cell func(policy.Limits) string) { // of the first n surfaces
		fmt.Fprintf(b, "| %s |", name)
		for i, l := range surfaces {
			text := "–"
			if i < n {
				text = cell(l)
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
	row := func(name string, cell func(policy.Limits) string) { rowOf(len(surfaces), name, cell) }
	row("`max_attempts`", func(l policy.Limits) string { return span(l.Attempts) })
	row("`backoff`", func(l policy.Limits) string { return span(l.Backoff) })
	row("`backoff_cap`", func(l policy.Limits) string { return span(l.Cap) })
	row("`backoff_multiplier`", func(l policy.Limits) string { return span(l.Multiplier) })
	row("`jitter`", func(l policy.Limits) string { return string(l.Jitter) })
	row("`jitter_factor`", func(l policy.Limits) string { return fmt.Sprint(l.JitterFactor) })
	row("`timeout`, `overall_timeout`", func(l policy.Limits) string { return "none (" + show(l.MinTimeout) + " …)" })
	row("`max_pushback`", func(l policy.Limits) string { return show(l.Pushback) })
	rowOf(1, "`hedge.max_hedges`", func(l policy.Limits) string { return span(l.Hedges) })
	rowOf(1, "`hedge.delay`", func(l policy.Limits) string { return span(l.HedgeDelay) })
	rowOf(2, "`circuit.cooldown`", func(l policy.Limits) string {
		return fmt.Sprintf("%s (%s …)", show(l.Circuit.Cooldown), show(l.MinCooldown))
	})
	rowOf(2, "`circuit.window`", func(l policy.Limits) string {
		return fmt.Sprintf("%s (%s … %s)", show(l.Circuit.Window), show(l.MinCooldown), show(l.MaxWindow))
	})
	b.WriteString("\n")
}

func span[T int | float64 | time.Duration](r policy.Range[T]) string {
	if float64(r.Max) >= float64(math.MaxInt64) {
		return fmt.Sprintf("%s (%s …)", show(r.Default), show(r.Min))
	}
	return fmt.Sprintf("%s (%s … %s)", show(r.Default), show(r.Min), show(r.Max))
}

// show formats durations without their zero parts: 1h, not 1h0m0s.
func show(v any) string {
	if v == time.Duration(0) {
		return "0"
	}
	s := fmt.Sprint(v)
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

func catalog(b *bytes.Buffer) {
	b.WriteString("## Categories\n\nRows of the catalog, taken by `category`. All double their backoff and jitter it by ±10 %.\n\n")
	b.WriteString("| category | code | max_attempts | backoff | backoff_cap | timeout |\n|---|---|---|---|---|---|\n")
	for _, c := range policy.Categories() {
		p, _ := c.Policy()
		fmt.Fprintf(b, "| `%s` | `%s` | %d | %s | %s | %s |\n", c, c.Code(), p.MaxAttempts, show(p.InitialBackoff), show(p.MaxBackoff), show(p.TimeoutPerAttempt))
	}
}

// reasons writes the reference of reasons.
func reasons() []byte {
	var b bytes.Buffer
	for _, section := range []struct{ where, title string }{
		{"outcome", "Outcomes of attempts"}, {"decision", "Why work continues or stops"},
		{"idempotency", "Answers of idempotency guards"},
		{"job", "Other changes of jobs"},
		{"admission", "Answers of budgets and breakers"}, {"report", "Reports"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| reason | meaning |\n|---|---|\n", section.title)
		for _, r := range policy.Reasons() {
			if r.Where == section.where {
				fmt.Fprintf(&b, "| `%s` | %s |\n", r.Reason, r.Meaning)
			}
		}
	}
	return b.Bytes()
}
