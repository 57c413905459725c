package audit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Redacted replaces what a rule removes.
const Redacted = "[redacted]"

// Redaction says what must not be stored. It is applied before events are hashed, so that the log still verifies and the
// removed text cannot be recovered from it. Members that replay needs cannot be redacted.
type Redaction struct {
	// Fields names members whose whole value is replaced: exception_message (and final_exception_message), exception_type
	// (and final_exception_type), detail, operation, tenant_id, correlation_id, trace_id, idempotency_key, actor,
	// attributes.NAME, attributes.*.
	Fields []string
	// Patterns are replaced wherever they match in any of those members, and in the values of all attributes.
	Patterns []*regexp.Regexp
}

// textNames are the names in Redaction.Fields of the members that hold text of the user's, in the order of texts.
var textNames = [...]string{
	"exception_message", "exception_message", "exception_type", "exception_type", "detail", "operation", "tenant_id", "correlation_id",
	"trace_id", "idempotency_key", "actor",
}

func (e *Event) texts() [len(textNames)]*string {
	return [...]*string{
		&e.ExceptionMessage, &e.FinalExceptionMessage, &e.ExceptionType, &e.FinalExceptionType, &e.Detail, &e.Operation, &e.TenantID,
		&e.CorrelationID, &e.TraceID, &e.IdempotencyKey, &e.Actor,
	}
}

const attributePrefix = "attributes."

// check returns an error for each rule that does not name a member that may be redacted.
func (r Redaction) check() error {
	var wrong []error
	for _, f := range r.Fields {
		if name, ok := strings.CutPrefix(f, attributePrefix); ok && name != "" {
			continue
		}
		if !slices.Contains(textNames[:], f) {
			wrong = append(wrong, fmt.Errorf("audit: redact %q: this member cannot be redacted; see Redaction.Fields", f))
		}
	}
	if slices.Contains(r.Patterns, nil) {
		wrong = append(wrong, errors.New("audit: redact: a pattern is nil"))
	}
	return errors.Join(wrong...)
}

func (r Redaction) empty() bool { return len(r.Fields)+len(r.Patterns) == 0 }

// finish removes from a converted event what must not be stored, and cuts its texts to the length that is stored.
func (r Redaction) finish(e *Event) {
	texts := e.texts()
	var before [len(texts)]int
	for i, s := range texts {
		before[i] = len(*s)
	}
	attributes := e.Attributes
	var classified map[string]string
	if e.Facts != nil && e.Facts.Classified != nil {
		classified = e.Facts.Classified.Attributes
	}
	r.apply(e)
	for i, s := range texts {
		*s = cutRedacted(*s, before[i])
	}
	most := attributeBytes
	if e.Type == OperatorAction {
		most = operatorBytes
	}
	e.Attributes = cutAll(e.Attributes, attributes, most)
	if classified != nil {
		e.Facts.Classified.Attributes = cutAll(e.Facts.Classified.Attributes, classified, attributeBytes)
	}
}

// cutRedacted cuts a text that had this length before it was redacted. Where it had been cut at longestRaw, a secret may stand half at
// its end, which no pattern matches.
func cutRedacted(s string, before int) string {
	if before > longestRaw-utf8.UTFMax && s != Redacted {
		s = shorten(s, max(len(s)-longestText, 0))
	}
	return shorten(s, longestText)
}

// cutAll is cutRedacted for attributes, given those before, and bounds their size.
func cutAll(m, before map[string]string, most int) map[string]string {
	long := false
	for k, v := range m {
		long = long || len(v) > longestText || len(before[k]) > longestText
	}
	if !long {
		return m
	}
	cut := make(map[string]string, len(m))
	for k, v := range m {
		cut[k] = cutRedacted(v, len(before[k]))
	}
	return bounded(cut, most, clean)
}

// apply removes from e what must not be stored. It copies what e shares with others first.
func (r Redaction) apply(e *Event) {
	if r.empty() {
		return
	}
	for i, s := range e.texts() {
		if *s != "" && slices.Contains(r.Fields, textNames[i]) {
			*s = Redacted
		}
		*s = r.text(*s)
	}
	e.Attributes = r.attributes(e.Attributes)
	if e.Facts != nil && e.Facts.Classified != nil {
		facts, classified := *e.Facts, *e.Facts.Classified
		classified.Attributes = r.attributes(classified.Attributes)
		facts.Classified = &classified
		e.Facts = &facts
	}
}

func (r Redaction) text(s string) string {
	for _, p := range r.Patterns {
		s = p.ReplaceAllLiteralString(s, Redacted)
	}
	return s
}

func (r Redaction) attributes(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	redacted := make(map[string]string, len(m))
	for k, v := range m {
		if slices.Contains(r.Fields, attributePrefix+"*") || slices.Contains(r.Fields, attributePrefix+k) {
			redacted[k] = Redacted
		} else {
			redacted[k] = r.text(v)
		}
	}
	return redacted
}
