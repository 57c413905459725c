package policyfile

import (
	_ "embed"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// Schema returns the JSON Schema (draft 2020-12) of documents, indented. It is generated from the Go types, their tags and
// their comments. See the package documentation for the rules that it cannot state.
func Schema() []byte {
	s := schemas{defs: map[string]any{}, root: documentType, example: map[string]any{
		"version":  version,
		"defaults": map[string]any{"calls": map[string]any{"retry": map[string]any{"max_attempts": 3, "backoff": "50ms", "backoff_cap": "2s"}}},
		"policies": map[string]any{"user-service.GetUser": map[string]any{"retry": map[string]any{"max_attempts": 4, "timeout": "300ms", "overall_timeout": "2s"}}},
	}}
	return s.document("urn:tenet:policy-document:1", "Tenet policy document")
}

//go:embed descriptions.json
var comments string

// descriptions returns the comments of documented types and fields.
var descriptions = sync.OnceValue(func() (texts map[string]string) {
	_ = json.Unmarshal([]byte(comments), &texts) // generated
	return texts
})

// schemas collects the definitions of struct types.
type schemas struct {
	defs    map[string]any
	root    reflect.Type
	example map[string]any // a document that editors can offer; nil for none
}

// none lists the values of a nullable field that mean explicitly none.
func none() map[string]any { return map[string]any{"enum": []any{nil, "", "none"}} }

func (s schemas) ref(name string, t reflect.Type) map[string]any {
	if _, known := s.defs[name]; !known {
		s.defs[name] = nil // stops recursion
		definition := s.object(t)
		if name == stepRetry {
			properties := definition["properties"].(map[string]any)
			overall := none()
			overall["description"] = "Not available in pipeline steps: use transaction_timeout or the loop's timeout."
			properties["overall_timeout"] = overall
		}
		s.defs[name] = definition
	}
	return map[string]any{"$ref": "#/$defs/" + name}
}

// stepRetry is the definition of retry in pipeline steps.
const stepRetry = "StepRetry"

func (s schemas) object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	for _, f := range fields.Of(t) {
		schema := s.field(t, f)
		if text := descriptions()[t.Name()+"."+f.Name]; text != "" {
			schema["description"] = text
			if value, ok := defaultOf(text, f); ok {
				schema["default"] = value
			}
		}
		if fields.IsDuration(f.Type) && !f.Rule.Reserved {
			schema["examples"] = []any{"250ms", 1.5}
		}
		properties[f.Name] = schema
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if text := descriptions()[t.Name()]; text != "" && t != s.root {
		object["description"] = text
	}
	switch t {
	case reflect.TypeFor[policy.Budget]():
		maps.Copy(object, budgetKinds())
	case reflect.TypeFor[Outage](), reflect.TypeFor[Suppression]():
		object["required"] = slices.Sorted(maps.Keys(properties))
		for _, required := range properties {
			if required := required.(map[string]any); required["type"] == "string" {
				required["minLength"] = 1
			}
		}
	}
	return object
}

var namedDefault = regexp.MustCompile(`\bDefault:? ([0-9.]*[0-9]|[a-z_]+)\b`)

// defaultOf returns the default that a description names: a number, or a value of the field's own list.
func defaultOf(description string, f fields.Field) (any, bool) {
	m := namedDefault.FindStringSubmatch(description)
	if m == nil {
		return nil, false
	}
	if enum, ok := reflect.Zero(f.Type).Interface().(interface{ Values() []string }); ok {
		return m[1], slices.Contains(enum.Values(), m[1])
	}
	switch kind := f.Type.Kind(); kind {
	case reflect.Int, reflect.Int64, reflect.Float64:
		number, err := strconv.ParseFloat(m[1], 64)
		return number, err == nil
	}
	return nil, false
}

// budgetKinds states which fields belong to which kind of budget.
func budgetKinds() map[string]any {
	type m = map[string]any
	without := func(fields ...string) m {
		properties := m{}
		for _, f := range fields {
			properties[f] = false
		}
		return m{"properties": properties}
	}
	when := func(kind policy.BudgetKind, then m) m {
		return m{"if": m{"required": []string{"kind"}, "properties": m{"kind": m{"const": string(kind)}}}, "then": then}
	}
	bucket := without("ratio", "burst")
	bucket["required"] = []string{"capacity", "refill_per_second"}
	unlimited := without("capacity", "refill_per_second", "ratio", "burst")
	unlimited["properties"].(m)["scope"] = m{"const": string(policy.ScopeProcess)}
	return m{"required": []string{"kind"}, "allOf": []any{
		when(policy.BudgetTokenBucket, bucket),
		when(policy.BudgetRetryRatio, without("capacity", "refill_per_second")),
		when(policy.BudgetUnlimited, unlimited),
	}}
}

func (s schemas) field(t reflect.Type, f fields.Field) map[string]any {
	schema := s.value(t, f)
	switch {
	case f.Rule.Reserved:
		return map[string]any{"not": map[string]any{}}
	case f.Rule.Null:
		return map[string]any{"anyOf": []any{schema, none()}}
	}
	return schema
}

func (s schemas) value(t reflect.Type, f fields.Field) map[string]any {
	switch kind := f.Type.Kind(); {
	case t == s.root && f.Name == "version":
		return map[string]any{"const": version}
	case fields.IsDuration(f.Type):
		return durations(f.Rule)
	case f.Type == freeType:
		return map[string]any{"type": "object"}
	case kind == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		return map[string]any{"type": "array", "items": s.ref(f.Type.Elem().Name(), f.Type.Elem())}
	case kind == reflect.Slice:
		return map[string]any{"type": "array", "items": names()}
	case kind == reflect.Map:
		return s.entries(f.Type.Elem())
	case kind == reflect.Struct && f.Type == reflect.TypeFor[policy.Retry]() && (t == reflect.TypeFor[policy.Step]() || t == reflect.TypeFor[policy.FetchStep]()):
		return s.ref(stepRetry, f.Type)
	case kind == reflect.Struct:
		return s.ref(f.Type.Name(), f.Type)
	case kind == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case kind == reflect.String:
		return texts(f)
	case kind == reflect.Int:
		schema := bounds(f.Rule)
		schema["type"] = "integer"
		if t == reflect.TypeFor[policy.Tightening]() { // a limit that would widen is refused, any other value is clamped
			schema["maximum"] = maxInteger
		}
		return schema
	}
	schema := bounds(f.Rule)
	schema["type"] = "number"
	return schema
}

func names() map[string]any {
	return map[string]any{"type": "string", "pattern": fields.NamePattern, "maxLength": fields.MaxName}
}

func texts(f fields.Field) map[string]any {
	if f.Type == categoryType {
		var values []string
		for _, c := range policy.Categories() {
			values = append(values, string(c), c.Code())
		}
		return map[string]any{"type": "string", "enum": values}
	}
	if enum, ok := reflect.Zero(f.Type).Interface().(interface{ Values() []string }); ok {
		return map[string]any{"type": "string", "enum": enum.Values()}
	}
	if f.Kind != "" {
		return names()
	}
	return map[string]any{"type": "string"}
}

func (s schemas) entries(t reflect.Type) map[string]any {
	keys := names()
	if t == reflect.TypeFor[policy.Policy]() {
		keys["not"] = map[string]any{"pattern": foreignPattern}
	}
	return map[string]any{"type": "object", "propertyNames": keys, "additionalProperties": s.ref(t.Name(), t)}
}

func bounds(r fields.Rule) map[string]any {
	schema := map[string]any{}
	switch {
	case !math.IsInf(r.Min, 0):
		schema["minimum"] = r.Min
	case r.Positive:
		schema["exclusiveMinimum"] = 0
	}
	if !math.IsInf(r.Max, 0) {
		schema["maximum"] = r.Max
	}
	return schema
}

func durations(r fields.Rule) map[string]any {
	seconds := bounds(r)
	seconds["type"] = "number"
	text := map[string]any{"type": "string", "pattern": fields.DurationPattern}
	if r.Positive {
		text["allOf"] = []any{map[string]any{"pattern": nonZeroPattern}}
	}
	return map[string]any{"anyOf": []any{seconds, text}}
}
