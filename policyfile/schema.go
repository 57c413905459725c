package policyfile

import (
	"encoding/json"
	"maps"
	"math"
	"reflect"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// Schema returns the JSON Schema (draft 2020-12) of documents, indented. It is generated from the Go types, their tags and
// their comments. See the package documentation for the rules that it cannot state.
func Schema() []byte {
	s := schemas{defs: map[string]any{}}
	root := s.object(documentType)
	maps.Copy(root, map[string]any{
		"$schema":  "https://json-schema.org/draft/2020-12/schema",
		"$id":      "urn:tenet:policy-document:1",
		"title":    "Tenet policy document",
		"required": []string{"version"},
		"$defs":    s.defs,
	})
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("policyfile: schema: " + err.Error()) // it holds only maps, lists, strings and finite numbers
	}
	return append(text, '\n')
}

// schemas collects the definitions of struct types.
type schemas struct{ defs map[string]any }

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
		if text := descriptions[t.Name()+"."+f.Name]; text != "" {
			schema["description"] = text
		}
		properties[f.Name] = schema
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if text := descriptions[t.Name()]; text != "" && t != documentType {
		object["description"] = text
	}
	if t == reflect.TypeFor[policy.Budget]() {
		maps.Copy(object, budgetKinds())
	}
	return object
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
	return m{"required": []string{"kind"}, "allOf": []any{
		when(policy.BudgetTokenBucket, bucket),
		when(policy.BudgetRetryRatio, without("capacity", "refill_per_second")),
		when(policy.BudgetUnlimited, without("capacity", "refill_per_second", "ratio", "burst")),
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
	case t == documentType && f.Name == "version":
		return map[string]any{"const": version}
	case fields.IsDuration(f.Type):
		return durations(f.Rule)
	case f.Type == freeType:
		return map[string]any{"type": "object"}
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
		return texts(t, f)
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
	return map[string]any{"type": "string", "pattern": namePattern, "maxLength": maxName}
}

func texts(t reflect.Type, f fields.Field) map[string]any {
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
	if kindOf[t.Name()+"."+f.Name] != "" {
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
	case r.Positive:
		schema["exclusiveMinimum"] = 0
	case !math.IsInf(r.Min, 0):
		schema["minimum"] = r.Min
	}
	if !math.IsInf(r.Max, 0) {
		schema["maximum"] = r.Max
	}
	return schema
}

func durations(r fields.Rule) map[string]any {
	seconds := bounds(r)
	seconds["type"] = "number"
	text := map[string]any{"type": "string", "pattern": durationPattern}
	if r.Positive {
		text["allOf"] = []any{map[string]any{"pattern": nonZeroPattern}}
	}
	return map[string]any{"anyOf": []any{seconds, text}}
}
