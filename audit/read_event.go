package audit

import (
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// eventReader reads from canonical lines what replay and statistics need. [ParseLine] reads everything, at a tenth of the
// speed. The event is valid until the next call.
type eventReader struct {
	intern   interner
	e        Event
	work, id []byte // instead of WorkID and ID
	time     int64  // instead of Time
	version  int64
	facts    Facts
	answer   Outcome
	left     Nanos
}

// read takes a line apart and reports whether it is an event of a known form.
func (x *eventReader) read(line []byte) bool {
	group := x.e.Group[:0]
	x.e = Event{Group: group}
	x.work, x.id, x.time, x.version = nil, nil, 0, 0
	r := lineReader{line: line}
	ok := r.members(func(name []byte) { x.member(&r, name) })
	return ok && x.version >= 1 && x.version <= SchemaVersion && len(x.id) > 0 && x.e.Type != "" && x.time != 0
}

// name reads a string of which there are few different ones.
func name[S ~string](x *eventReader, r *lineReader) S { return S(x.intern.name(r.text())) }

func (x *eventReader) member(r *lineReader, member []byte) {
	e := &x.e
	switch string(member) {
	case "action":
		e.Action = name[string](x, r)
	case "attempt_number":
		e.Attempt = int(r.integer())
	case "core_version":
		e.CoreVersion = name[string](x, r)
	case "count":
		e.Count = r.unsigned()
	case "deciding":
		e.Deciding = int(r.integer())
	case "decision":
		e.Decision = name[string](x, r)
	case "delay_external":
		e.External = r.boolean()
	case "delay_ns":
		e.DelayNS = r.nanos()
	case "denied":
		e.Denied = r.boolean()
	case "elapsed_ns":
		e.ElapsedNS = r.nanos()
	case "event_id":
		x.id = r.text()
	case "event_type":
		e.Type = name[Type](x, r)
	case "facts":
		x.readFacts(r)
	case "group":
		r.open('[')
		for first := true; r.more(']', &first); {
			e.Group = append(e.Group, int(r.integer()))
		}
	case "hedge_index":
		e.HedgeIndex = int(r.integer())
	case "key":
		e.Key = name[string](x, r)
	case "left_ns":
		x.left = r.nanos()
		e.LeftNS = &x.left
	case "left_reason":
		e.LeftReason = name[policy.Reason](x, r)
	case "lost":
		e.Lost = r.unsigned()
	case "matched_rule":
		e.MatchedRule = name[decision.Rule](x, r)
	case "policy":
		e.Policy = r.value()
	case "policy_revision":
		e.PolicyRevision = name[string](x, r)
	case "pushback_ns":
		e.PushbackNS = r.nanos()
	case "reason":
		e.Reason = name[policy.Reason](x, r)
	case "retry_category":
		e.Category = name[string](x, r)
	case "schema_version":
		x.version = r.integer()
	case "seed":
		e.Seed = r.quoted()
	case "state_attempt":
		e.StateNumber = int(r.integer())
	case "state_max_attempts":
		e.StateLimit = int(r.integer())
	case "surface":
		e.Surface = name[string](x, r)
	case "timestamp":
		x.time = r.stamp()
	case "took_ns":
		e.TookNS = r.nanos()
	case "total_attempts":
		e.TotalAttempts = int(r.integer())
	case "work_id":
		x.work = r.text()
	case "work_seq":
		e.WorkSeq = int(r.integer())
	default:
		x.outcomeMember(r, member)
	}
}

func (x *eventReader) outcomeMember(r *lineReader, member []byte) {
	e := &x.e
	switch string(member) {
	case "outcome_kind":
		e.OutcomeKind = name[string](x, r)
	case "outcome_category":
		e.OutcomeCategory = name[string](x, r)
	case "outcome_class":
		e.OutcomeClass = name[policy.Class](x, r)
	case "outcome_reason":
		e.OutcomeReason = name[policy.Reason](x, r)
	default:
		r.value()
	}
}

func (x *eventReader) readFacts(r *lineReader) {
	f := &x.facts
	*f = Facts{Classes: f.Classes[:0]}
	x.e.Facts = f
	r.open('{')
	for first := true; r.more('}', &first); {
		switch string(r.name()) {
		case "classes":
			x.readClasses(r)
		case "classified":
			x.readAnswer(r)
		case "ended":
			f.Ended = name[policy.Reason](x, r)
		case "failed":
			f.Failed = r.boolean()
		case "mark":
			f.Mark = name[string](x, r)
		case "pushback_ns":
			f.PushbackNS = r.nanos()
		case "timed_out":
			f.TimedOut = r.boolean()
		default:
			r.value()
		}
	}
}

func (x *eventReader) readClasses(r *lineReader) {
	r.open('[')
	for first := true; r.more(']', &first); {
		var m classify.Match
		r.open('{')
		for inner := true; r.more('}', &inner); {
			switch string(r.name()) {
			case "class":
				m.Class = name[policy.Class](x, r)
			case "parent":
				m.Parent = name[policy.Class](x, r)
			default:
				r.value()
			}
		}
		x.facts.Classes = append(x.facts.Classes, m)
	}
}

func (x *eventReader) readAnswer(r *lineReader) {
	o := &x.answer
	*o = Outcome{}
	x.facts.Classified = o
	r.open('{')
	for first := true; r.more('}', &first); {
		switch string(r.name()) {
		case "category":
			o.Category = name[string](x, r)
		case "class":
			o.Class = name[policy.Class](x, r)
		case "kind":
			o.Kind = name[string](x, r)
		case "pushback_ns":
			o.PushbackNS = r.nanos()
		case "reason":
			o.Reason = name[policy.Reason](x, r)
		default:
			r.value()
		}
	}
}
