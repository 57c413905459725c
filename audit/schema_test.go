package audit

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
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

// meanings documents every member; the schema and the reference are made of it and of the structs.
var meanings = map[string]string{
	"schema_version": "Version of this form: 1.",
	"event_id":       "UUIDv7. The same wherever the event is delivered again: readers drop repetitions by it.",
	"event_type":     "What the event tells.",
	"timestamp":      "When it happened: RFC 3339, UTC, microseconds, trailing zeros left out.",

	"surface": "What kind of work: call, job or step.", "key": "The policy key of the work.",
	"work_id":         "ID of the call, job or transaction. Its events share it.",
	"work_seq":        "Place of the event among those of the same work; grows, with gaps. Sort the events of one work by work_seq, timestamp, event_id.",
	"operation":       "What was being done; job type; pipeline and step (orders.process); operation of an idempotency record.",
	"retry_category":  "Code of the operation category, for example RETRY_KV_GET.",
	"tenant_id":       "Tenant of the work or record.",
	"correlation_id":  "Correlation ID of the work.",
	"trace_id":        "Trace ID of the work.",
	"idempotency_key": "Key of the idempotency record, or the key that the call was made under.",

	"policy_id": "The policy's own ID.", "policy_revision": "SHA-256 of the policy's canonical JSON. A policy_snapshot with it comes before its first use in each segment.",
	"policy": "The whole policy, as a document writes it and with every default filled in.",

	"attempt_number": "The attempt that just ended, by launch order from 1. Where `denied` is set and nothing ran: the attempt that was refused.",
	"max_attempts":   "The effective maximum of attempts.",
	"took_ns":        "How long the attempt ran; absent where nothing but its end was told.",
	"retry_index":    "0 (absent) for the first attempt or group, 1 for the first retry.", "hedge_index": "0 (absent) for a primary, 1 for its first hedge.",
	"outcome_kind":     "What the result means: success, retryable, non_retryable or abort.",
	"outcome_category": "Whose side a failure is on: business, system or timeout.",
	"outcome_class":    "The error class that decided, if one did.", "outcome_classes": "Classes of the error.",
	"outcome_reason": "Why the outcome is what it is: a reason code.",
	"pushback_ns":    "The wait that the other side asked for. In `facts`, the one that came with an error's mark.",
	"matched_rule":   "The rule by which the outcome follows from `facts` and the policy. Absent where nothing was judged: refused, cancelled, panicked.",
	"facts":          "What the judgement was made from. Absent for a success without a classifier.",

	"decision": "What follows: retry, stop or done.", "reason": "Why: a reason code.",
	"delay_seconds":      "The wait after this attempt, in seconds.",
	"delay_ns":           "The same wait, exact.",
	"delay_external":     "Code computed the delay; replay keeps it.",
	"elapsed_ns":         "Time since the work began. In call_count: the time that was counted over.",
	"left_ns":            "Time that was left until the work's end when the decision was made; may be 0 or negative. Absent: nothing bounds the work, or it did not matter.",
	"left_reason":        "What ends the work then: overall_timeout or deadline_exceeded.",
	"state_attempt":      "Ended attempts (groups when hedging) when the decision was made.",
	"state_max_attempts": "The work's own maximum, where it has one (jobs); else the policy's counts.",
	"seed":               "Seed of the delays' jitter, decimal. Absent: 0, or no jitter was drawn.",
	"group":              "Attempts of the hedged group in the order in which they ended.",
	"deciding":           "The attempt of the group that decided.",
	"core_version":       "Version of the decision functions. The same version derives the same decisions.",

	"budget_allowed": "Whether the budget allowed the attempt; with `denied`, the refused one.", "budget_reason": "The budget's answer: a reason code.",
	"circuit_state": "State of the breaker when it was asked.", "denied": "An attempt was refused: in hedge, this one; in a decision, the next.",

	"exception_type": "Type of the error: the first in its tree that is more than a wrapper.", "exception_message": "Text of the error, at most 8 KiB.",
	"total_attempts":       "Attempts that ran. In idempotency and job_transition: those that are recorded as failed.",
	"final_exception_type": "Type of the last error of work that ended without success.", "final_exception_message": "Text of that error.",

	"action": "idempotency: hit, record, failed, conflict, mismatch, fenced, released, unknown, cleared. operator_action: what was done.",
	"actor":  "Who: operator, worker or process.", "fence": "Fencing token of the claim.",
	"from": "State or revision before.", "to": "State or revision after.",
	"count": "Successes with the first attempt that were not recorded one by one.", "lost": "Observed events that were lost since the last time this was told.",
	"heads":  "Ends of the chains that were in the sink when this chain began; at most the latest 256.",
	"detail": "Free text.", "attributes": "Attributes of the work, and details of the outcome or action, at most 64.",

	"chain_id": "The chain, one per writer.", "seq": "Place in the chain, from 1.", "prev_hash": "Hash of the event before; absent in the first.",
	"hash": "SHA-256, hexadecimal, of the canonical JSON of the event without this member.",

	"failed": "The operation returned an error.", "ended": "Why the caller's context or the overall timeout was over.",
	"timed_out": "The attempt's own timeout had struck.", "mark": "Outermost mark of the error: permanent, business or after.",
	"classes": "Classes of the error, each with the parent that its family gives it.", "classified": "Answer of the policy's classifier.",
	"kind": "As outcome_kind.", "category": "As outcome_category.", "class": "Name of the class.", "parent": "Wider class.",
}

// required are the members that every event of a type has, beside those of all events.
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

type object = map[string]any

// schemaOf derives the schema of a struct; inlined structs become definitions.
func schemaOf(t reflect.Type, defs object) object {
	properties, always := object{}, []string{}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		p := typeSchema(t.Field(i).Type, options, defs)
		if values := enums[name]; values != nil {
			p["enum"] = values
		}
		p["description"] = meanings[name]
		properties[name] = p
		if !strings.Contains(options, "omitempty") {
			always = append(always, name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(always) > 0 {
		slices.Sort(always)
		s["required"] = always
	}
	return s
}

func typeSchema(t reflect.Type, options string, defs object) object {
	switch {
	case t == reflect.TypeFor[Nanos](), t == reflect.TypeFor[*Nanos]():
		return object{"type": []string{"integer", "string"}, "pattern": "^-?[0-9]{16,19}$"}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{"type": "object"}
	case strings.Contains(options, "string"):
		return object{"type": "string", "pattern": "^[0-9]{1,20}$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeSchema(t.Elem(), "", defs)
	case reflect.Struct:
		name := strings.ToLower(t.Name())
		if defs[name] == nil {
			defs[name] = object{}
			defs[name] = schemaOf(t, defs)
		}
		return object{"$ref": "#/$defs/" + name}
	case reflect.Slice:
		return object{"type": "array", "items": typeSchema(t.Elem(), "", defs)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": object{"type": "string"}}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	}
	return object{"type": "string"}
}

func eventSchema() object {
	defs := object{}
	s := schemaOf(reflect.TypeFor[Event](), defs)
	s["$schema"], s["$id"] = "https://json-schema.org/draft/2020-12/schema", "https://tenet.dev/schemas/audit-event-1.json"
	s["title"], s["$defs"] = "Tenet audit event", defs
	s["required"] = append(s["required"].([]string), "chain_id", "hash", "seq")
	properties := s["properties"].(object)
	properties["schema_version"].(object)["const"] = SchemaVersion
	properties["event_type"].(object)["enum"] = Types()
	for name, pattern := range map[string]string{
		"event_id": "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$", "hash": "^[0-9a-f]{64}$", "prev_hash": "^[0-9a-f]{64}$",
	} {
		properties[name].(object)["pattern"] = pattern
	}
	var rules []object
	for _, t := range Types() {
		then := object{"required": required[t]}
		switch t {
		case CallCount:
			then = object{"anyOf": []object{{"required": []string{"count"}}, {"required": []string{"lost"}}}}
		case ChainOpened:
			then["properties"] = object{"seq": object{"const": 1}, "prev_hash": false}
		}
		rules = append(rules, object{"if": object{"properties": object{"event_type": object{"const": t}}}, "then": then})
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
	for _, s := range []reflect.Type{reflect.TypeFor[Event](), reflect.TypeFor[Facts](), reflect.TypeFor[Outcome](), reflect.TypeFor[classify.Match](), reflect.TypeFor[Head]()} {
		table(&b, s)
	}
	published(t, referenceFile, b.String()+"\n"+end+tail)
	for _, typ := range Types() {
		if !strings.Contains(string(raw), "`"+string(typ)+"`") {
			t.Errorf("the reference says nothing of %s", typ)
		}
	}
}

func table(b *strings.Builder, s reflect.Type) {
	titles := map[string]string{
		"Event": "Event", "Facts": "Object `facts`", "Outcome": "Object `classified`", "Match": "Objects in `classes`", "Head": "Objects in `heads`",
	}
	fmt.Fprintf(b, "\n### %s\n\n| member | JSON | meaning |\n|---|---|---|\n", titles[s.Name()])
	for i := range s.NumField() {
		name, options, _ := strings.Cut(s.Field(i).Tag.Get("json"), ",")
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, typeText(s.Field(i).Type, options), meanings[name])
	}
}

func typeText(t reflect.Type, options string) string {
	s := typeSchema(t, options, object{})
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

func TestA1EveryMemberIsExplained(t *testing.T) {
	used := map[string]bool{}
	walk := func(s any) {
		for name, p := range s.(object)["properties"].(object) {
			used[name] = true
			if p.(object)["description"] == "" {
				t.Errorf("%s is not explained", name)
			}
		}
	}
	schema := eventSchema()
	walk(schema)
	for _, d := range schema["$defs"].(object) {
		walk(d)
	}
	for name := range meanings {
		if !used[name] {
			t.Errorf("there is no member %s", name)
		}
	}
}

// TestA1EveryTypeThatTheLogWritesFitsTheSchema makes a log write events of every type.
func TestA1EveryTypeThatTheLogWritesFitsTheSchema(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile(schemaFile)
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
		if err := l.PolicyChanged(bg, nil, getUser, "ann", "first"); err != nil {
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
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s\n%v", sink.lines[i], err)
		}
		delete(doc.(map[string]any), "hash")
		if schema.Validate(doc) == nil {
			t.Error("an event without its hash fits")
		}
	}
	for _, typ := range Types() {
		if written[typ] == 0 {
			t.Errorf("no %s was written", typ)
		}
	}
}

// oneOfEach are observed events of every type, with as many members as they can have.
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
	of(observe.Reported).Report = &observe.Report{Reason: policy.ReasonAttemptOverrun} // not for the log
	of(observe.CallStarted).Time = time.Time{}
	return list
}
