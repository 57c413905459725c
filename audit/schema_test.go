package audit

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

var updateSchema = flag.Bool("update-schema", false, "write the event schema and the tables of its reference")

const (
	schemaFile    = "../docs/audit-event.schema.json"
	referenceFile = "../docs/audit-schema.md"
)

// required lists the members that every event of a type has, besides those of all events.
var required = map[Type][]string{
	RetryAttempt:   {"attempt_number", "core_version", "decision", "key", "max_attempts", "outcome_kind", "reason", "state_attempt", "surface"},
	RetryExhausted: {"attempt_number", "core_version", "decision", "key", "max_attempts", "outcome_kind", "reason", "state_attempt", "surface", "total_attempts"},
	CallStopped:    {"core_version", "decision", "key", "outcome_kind", "reason", "surface"},
	CallSucceeded:  {"attempt_number", "core_version", "decision", "key", "outcome_kind", "reason", "surface", "total_attempts"},
	Hedge:          {"attempt_number", "key", "outcome_kind"},
	Idempotency:    {"action", "idempotency_key"},
	JobTransition:  {"to", "work_id"},
	CircuitChanged: {"from", "key", "to"},
	PolicySnapshot: {"policy", "policy_revision"},
	PolicyChanged:  {"policy", "policy_revision", "to"},
	OperatorAction: {"action"},
	ChainOpened:    {"core_version"},
	CallCount:      {},
}

var enums = map[string][]string{
	"decision": {"done", "retry", "stop"}, "outcome_kind": {"success", "retryable", "non_retryable", "abort"},
	"kind": {"success", "retryable", "non_retryable", "abort"}, "outcome_category": {"business", "system", "timeout"},
	"category": {"business", "system", "timeout"}, "mark": {"permanent", "business", "after"}, "surface": {"call", "job", "step"},
}

type schema = map[string]any

// member is a member that the codec writes, with its field and the field's comment.
type member struct {
	name, meaning string
	field         reflect.Type
	quoted        bool // a number in a string
	always        bool // also written when empty
}

// membersOf lists the members of an object in the order of the fields: it encodes the object once for each field, with only
// that field set.
func membersOf[T any](members func(*T, *codec)) []member {
	meanings := comments(reflect.TypeFor[T]())
	of := func(v *T) (object map[string]json.RawMessage) {
		w := encoder{}
		w.codec.w = &w
		write(&w.codec, v, members)
		if err := json.Unmarshal(w.b, &object); err != nil {
			panic(err)
		}
		return object
	}
	empty := of(new(T))
	var list []member
	for i := range reflect.TypeFor[T]().NumField() {
		var v T
		field := reflect.ValueOf(&v).Elem().Field(i)
		set(field)
		for name, value := range of(&v) {
			if old, always := empty[name]; !bytes.Equal(old, value) {
				f := reflect.TypeFor[T]().Field(i)
				quoted := value[0] == '"' && f.Type.Kind() == reflect.Uint64
				list = append(list, member{name: name, meaning: meanings[f.Name], field: f.Type, quoted: quoted, always: always})
			}
		}
	}
	return list
}

// set gives v a non-empty value.
func set(v reflect.Value) {
	switch into := v.Addr().Interface().(type) {
	case *time.Time:
		*into = start
		return
	case *json.RawMessage:
		*into = json.RawMessage(`{}`)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"": ""}))
	default:
		v.SetInt(1)
	}
}

// comments returns the comments of a struct's fields.
func comments(t reflect.Type) map[string]string {
	files, err := filepath.Glob(filepath.Join("..", path.Base(t.PkgPath()), "*.go"))
	if err != nil {
		panic(err)
	}
	found := map[string]string{}
	for _, name := range files {
		if len(found) > 0 || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			panic(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != t.Name() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					found[f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
			return false
		})
	}
	return found
}

type described struct {
	title, definition string
	members           []member
}

// objectsOf lists the objects of an event. It reads the source, for which processes that tests start have no need.
var objectsOf = sync.OnceValue(func() []described {
	return []described{
		{"Event", "", membersOf((*Event).members)},
		{"Object `facts`", "facts", membersOf((*Facts).members)},
		{"Object `classified`", "outcome", membersOf((*Outcome).members)},
		{"Objects in `classes`", "match", membersOf(matchMembers)},
		{"Objects in `heads`", "head", membersOf((*Head).members)},
		{"Object `shadow`", "shadow", membersOf((*Shadow).members)},
	}
})

func objectSchema(members []member) schema {
	properties, always := schema{}, []string{}
	for _, m := range members {
		p := typeSchema(m.field, m.quoted)
		if values := enums[m.name]; values != nil {
			p["enum"] = values
		}
		p["description"] = m.meaning
		properties[m.name] = p
		if m.always {
			always = append(always, m.name)
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(always) > 0 {
		slices.Sort(always)
		s["required"] = always
	}
	return s
}

func typeSchema(t reflect.Type, quoted bool) schema {
	switch {
	case t == reflect.TypeFor[Nanos](), t == reflect.TypeFor[*Nanos]():
		return schema{"type": []string{"integer", "string"}, "pattern": "^-?[0-9]{16,19}$"}
	case t == reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return schema{"type": "object"}
	case quoted:
		return schema{"type": "string", "pattern": "^[0-9]{1,20}$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem(), false)
	case reflect.Struct:
		return schema{"$ref": "#/$defs/" + strings.ToLower(t.Name())}
	case reflect.Slice:
		return schema{"type": "array", "items": typeSchema(t.Elem(), false)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": schema{"type": "string"}}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Uint64:
		return schema{"type": "integer", "minimum": 0}
	}
	return schema{"type": "string"}
}

func eventSchema() schema {
	defs := schema{}
	for _, o := range objectsOf()[1:] {
		defs[o.definition] = objectSchema(o.members)
	}
	s := objectSchema(objectsOf()[0].members)
	s["$schema"], s["$id"] = "https://json-schema.org/draft/2020-12/schema", "https://tenet.dev/schemas/audit-event-1.json"
	s["title"], s["$defs"] = "Tenet audit event", defs
	s["required"] = append(s["required"].([]string), "chain_id", "hash", "seq")
	properties := s["properties"].(schema)
	properties["schema_version"].(schema)["const"] = SchemaVersion
	properties["event_type"].(schema)["enum"] = Types()
	for name, pattern := range map[string]string{
		"event_id": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", "hash": "^[0-9a-f]{64}$", "prev_hash": "^[0-9a-f]{64}$",
	} {
		properties[name].(schema)["pattern"] = pattern
	}
	var rules []schema
	for _, t := range Types() {
		then := schema{"required": required[t]}
		switch t {
		case CallCount:
			then = schema{"anyOf": []schema{{"required": []string{"count"}}, {"required": []string{"lost"}}}}
		case ChainOpened:
			then["properties"] = schema{"seq": schema{"const": 1}, "prev_hash": false}
		}
		rules = append(rules, schema{"if": schema{"properties": schema{"event_type": schema{"const": t}}}, "then": then})
	}
	s["allOf"] = rules
	return s
}

func TestA1SchemaIsPublished(t *testing.T) {
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(eventSchema()); err != nil {
		t.Fatal(err)
	}
	published(t, schemaFile, want.String())
}

func TestA1ReferenceListsEveryMember(t *testing.T) {
	raw, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- members: begin -->\n", "<!-- members: end -->"
	head, rest, ok := strings.Cut(string(raw), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables", referenceFile)
	}
	var b strings.Builder
	b.WriteString(head + begin)
	for _, o := range objectsOf() {
		fmt.Fprintf(&b, "\n### %s\n\n| member | JSON | meaning |\n|---|---|---|\n", o.title)
		for _, m := range o.members {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, typeText(m), m.meaning)
		}
	}
	published(t, referenceFile, b.String()+"\n"+end+tail)
	for _, typ := range Types() {
		if !strings.Contains(string(raw), "`"+string(typ)+"`") {
			t.Errorf("the reference does not list %s", typ)
		}
	}
}

func typeText(m member) string {
	s := typeSchema(m.field, m.quoted)
	switch {
	case s["pattern"] == "^-?[0-9]{16,19}$":
		return "integer; string beyond ±2⁵³"
	case s["$ref"] != nil, s["type"] == "object":
		return "object"
	case s["type"] == "array":
		return "list"
	}
	return s["type"].(string)
}

func published(t *testing.T, file, want string) {
	t.Helper()
	if *updateSchema {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is not up to date; -update-schema writes it (-want +got):\n%s", file, diff)
	}
}

func TestA1EveryFieldIsAMemberWithAMeaning(t *testing.T) {
	for i, fields := range []int{
		reflect.TypeFor[Event]().NumField(), reflect.TypeFor[Facts]().NumField(), reflect.TypeFor[Outcome]().NumField(),
		reflect.TypeFor[classify.Match]().NumField(), reflect.TypeFor[Head]().NumField(), reflect.TypeFor[Shadow]().NumField(),
	} {
		o := objectsOf()[i]
		if len(o.members) != fields {
			t.Errorf("%s: %d fields make %d members", o.title, fields, len(o.members))
		}
		for _, m := range o.members {
			if m.meaning == "" {
				t.Errorf("%s: %s has no comment", o.title, m.name)
			}
		}
	}
}

// TestA1EveryTypeThatTheLogWritesFitsTheSchema makes a log write events of every type.
func TestA1EveryTypeThatTheLogWritesFitsTheSchema(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	compiled, err := compiler.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var sink MemorySink
	for range 2 { // the second chain opens with heads
		l := open(t, &sink, Options{Mode: Buffered, Sample: -1})
		for _, e := range oneOfEach() {
			l.Observe(bg, e)
		}
		l.lost.Add(1)
		if err := l.OperatorAction(bg, Operation{Actor: "ann", Action: "resolve", IdempotencyKey: "k", Attributes: map[string]string{"as": "done"}}); err != nil {
			t.Fatal(err)
		}
		if err := l.PolicyChanged(bg, PolicyChange{To: getUser, Actor: "ann", Detail: "first"}); err != nil {
			t.Fatal(err)
		}
		closeLog(t, l)
	}
	written := map[Type]int{}
	for i, e := range sink.Events() {
		written[e.Type]++
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(sink.lines[i]))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(doc); err != nil {
			t.Errorf("%s\n%v", sink.lines[i], err)
		}
		delete(doc.(map[string]any), "hash")
		if compiled.Validate(doc) == nil {
			t.Error("an event without its hash is valid")
		}
	}
	for _, typ := range Types() {
		if written[typ] == 0 {
			t.Errorf("no %s was written", typ)
		}
	}
}

// oneOfEach returns observed events of every type, with as many members as possible.
func oneOfEach() []*observe.Event {
	outcome := classify.Outcome{
		Kind: classify.Retryable, Category: classify.CategoryTimeout, Class: "quota", Reason: policy.ReasonError, Pushback: time.Second,
		Attributes: map[string]string{"limit": "10"},
	}
	full := failed("call-1", 1)
	d := full.Decision
	d.Facts = decision.Facts{
		Failed: true, TimedOut: true, Mark: classify.MarkAfter, Pushback: 1 << 60, Classified: &outcome,
		Classes: []classify.Match{{Class: "http_503", Parent: "http_5xx"}},
	}
	d.Outcome, d.State.Left, d.State.LeftReason, d.State.Seed, d.State.MaxAttempts = outcome, 0, policy.ReasonOverallTimeout, 1<<63, 9
	d.Attempt, d.Group = 2, []int{1, 2}
	d.Shadow = &observe.ShadowDecision{Revision: "r", Verdict: decision.Verdict{Action: decision.Retry, Delay: time.Second, Reason: policy.ReasonRetry}}
	refused := attemptOf("call-1", 1, observe.AttemptRecord{
		Attempt: 3, HedgeIndex: 2, Denied: true, BudgetReason: policy.ReasonBudgetDenied, Circuit: "half_open", Start: start, End: start,
		Outcome: classify.Outcome{Kind: classify.Abort, Reason: policy.ReasonBudgetDenied, Attributes: map[string]string{observe.AttrDetail: "tenant-1"}},
	})
	exhausted := decisionOf("call-2", 3, errDown, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAttemptsExhausted})
	never := decisionOf("call-3", 0, nil, decision.Verdict{Action: decision.Stop, Reason: policy.ReasonCanceled})
	never.Decision.Outcome, never.Decision.Rule = classify.Outcome{Kind: classify.Abort, Reason: policy.ReasonCanceled}, ""
	panicked := attemptOf("call-4", 1, observe.AttemptRecord{})
	panicked.Type, panicked.Attempt = observe.CallEnded, nil
	panicked.Timeline = &observe.Timeline{Reason: policy.ReasonPanicInOperation, FinalError: errDown}
	list := []*observe.Event{refused, full, exhausted, never, panicked, succeeded("call-5", 1), succeeded("call-6", 2)}
	of := func(t observe.EventType) *observe.Event {
		e := failed("work", 1)
		e.Type, e.Decision = t, nil
		list = append(list, e)
		return e
	}
	of(observe.CircuitChanged).Circuit = &observe.CircuitChange{From: "closed", To: "open"}
	of(observe.Idempotent).Idempotency = &observe.IdempotencyAction{Tenant: "t", Operation: "o", Key: "k", Action: "fenced", Fence: 7, Attempts: 2, Detail: "late"}
	of(observe.JobMoved).Transition = &observe.Transition{From: "running", To: "dead", Reason: policy.ReasonLeaseExpired, Attempts: 3, Worker: "w-1"}
	of(observe.JobMoved).Transition = &observe.Transition{To: "ready"}
	of(observe.Reported).Report = &observe.Report{Reason: policy.ReasonAttemptOverrun} // not recorded
	of(observe.CallStarted).Time = time.Time{}
	return list
}
