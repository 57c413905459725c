package postgres

import (
	"fmt"
	"strings"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

// term is the condition of a term on the rows s and b of selectJobs.
func (q *selection) term(t filter.Term) string {
	switch t.Field {
	case job.FieldQueue:
		return q.values("s.queue = ANY (%s::text[])", "starts_with(s.queue, %s)", t)
	case job.FieldType:
		return q.values("b.type = ANY (%s::text[])", "starts_with(b.type, %s)", t)
	case job.FieldKey:
		return q.values("b.unique_key = ANY (SELECT convert_to(v, 'UTF8') FROM unnest(%s::text[]) v)",
			"position(convert_to(%s, 'UTF8') IN b.unique_key) = 1", t)
	case job.FieldCause:
		return q.values("s.cause = ANY (%s::text[])", "", t)
	case job.FieldFlow:
		return q.values("s.id = ANY (ARRAY(SELECT n.job_id FROM {{schema}}.flow f "+
			"JOIN {{schema}}.flow_node n ON n.flow = ANY (ARRAY[f.seq]) WHERE f.id = ANY (%s::text[])))", "", t)
	case job.FieldError:
		texts := lists.Map(t.Values, func(v filter.Value) string { return v.Text })
		return fmt.Sprintf("EXISTS (SELECT FROM unnest(%s::text[]) v WHERE strpos(s.last_error, v) > 0)", q.arg(texts))
	}
	return q.values(q.stored(t)+" = ANY (%s::text[])", "", t)
}

// stored is the value of metadata or of a payload that a term is about.
func (q *selection) stored(t filter.Term) string {
	if t.Field == job.FieldMeta {
		return fmt.Sprintf("{{schema}}.meta_field(b.meta, %s)", q.arg(t.Path))
	}
	return fmt.Sprintf("{{schema}}.payload_field(b.payload, %s)", q.arg(strings.Split(t.Path, ".")))
}

// values is the condition for alternatives, of which there may be whole ones and prefixes.
func (q *selection) values(whole, prefix string, t filter.Term) string {
	var texts, conditions []string
	for _, v := range t.Values {
		if v.Prefix {
			conditions = append(conditions, fmt.Sprintf(prefix, q.arg(v.Text)))
		} else {
			texts = append(texts, v.Text)
		}
	}
	if len(texts) > 0 {
		conditions = append(conditions, fmt.Sprintf(whole, q.arg(texts)))
	}
	return `(` + strings.Join(conditions, ` OR `) + `)`
}
