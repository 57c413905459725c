package sqlite

import (
	"strings"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// termSQL is the condition of a term with its arguments. Its text does not depend on values, so that few are prepared.
func termSQL(t filter.Term) (condition string, args []any) {
	switch t.Field {
	case job.FieldQueue:
		return valuesSQL("queue", t)
	case job.FieldType:
		return valuesSQL("type", t)
	case job.FieldKey:
		return valuesSQL("unique_key", t)
	case job.FieldCause:
		return valuesSQL("cause", t)
	case job.FieldFlow:
		return `seq IN (SELECT n.job FROM tenet_flow AS f JOIN tenet_flow_node AS n ON n.flow = f.seq WHERE f.id IN (SELECT value FROM json_each(?)))`,
			[]any{list(t.Values, valueText)}
	case job.FieldError:
		return `EXISTS (SELECT 1 FROM json_each(?) AS v WHERE instr(tenet_job.last_error, v.value) > 0)`, []any{list(t.Values, valueText)}
	}
	column, path := storedSQL(t, `?1`), jsonPath(t)
	return strings.ReplaceAll(column, `?1`, `?`) + ` IN (SELECT value FROM json_each(?))`, append(repeat(path, strings.Count(column, `?1`)), list(t.Values, valueText))
}

// storedSQL is the value of metadata or of a payload that a term is about, at a path.
func storedSQL(t filter.Term, path string) string {
	if t.Field == job.FieldMeta {
		return `(meta ->> ` + path + `)`
	}
	return strings.NewReplacer(`{{document}}`, `CAST(payload AS TEXT)`, `{{path}}`, path).Replace(payloadSQL)
}

// payloadSQL is the text of a string, number or boolean. What is not JSON must not reach the functions that fail on it.
const payloadSQL = `(CASE WHEN json_valid({{document}}) THEN CASE json_type({{document}}, {{path}}) WHEN 'text' THEN {{document}} ->> {{path}}
WHEN 'integer' THEN {{document}} -> {{path}} WHEN 'real' THEN {{document}} -> {{path}} WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' END END)`

// jsonPath is the path of a term's value. Job filters have no names with quotes.
func jsonPath(t filter.Term) string {
	if t.Field == job.FieldMeta {
		return `$."` + t.Path + `"`
	}
	return `$."` + strings.ReplaceAll(t.Path, `.`, `"."`) + `"`
}

// valuesSQL is the condition for alternatives, of which there may be whole ones and prefixes.
func valuesSQL(column string, t filter.Term) (condition string, args []any) {
	var whole, prefixes []filter.Value
	for _, v := range t.Values {
		if v.Prefix {
			prefixes = append(prefixes, v)
		} else {
			whole = append(whole, v)
		}
	}
	in := column + ` IN (SELECT value FROM json_each(?))`
	begins := `EXISTS (SELECT 1 FROM json_each(?) AS v WHERE substr(tenet_job.` + column + `, 1, length(v.value)) = v.value)`
	switch {
	case len(prefixes) == 0:
		return in, []any{list(whole, valueText)}
	case len(whole) == 0:
		return begins, []any{list(prefixes, valueText)}
	}
	return `(` + in + ` OR ` + begins + `)`, []any{list(whole, valueText), list(prefixes, valueText)}
}

func valueText(v filter.Value) string { return v.Text }

func repeat(v any, n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = v
	}
	return all
}
