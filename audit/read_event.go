package audit

// eventReader reads the members of canonical lines that replay and statistics need; [ParseLine] reads all members. The event
// is valid until the next call.
type eventReader struct {
	intern interner
	e      Event // without ID and WorkID

	codec  codec
	line   lineReader
	facts  Facts
	answer Outcome
	left   Nanos
}

// read parses a line and reports whether it is an event of a known schema.
func (x *eventReader) read(line []byte) bool {
	x.answer = Outcome{}
	x.facts = Facts{Classes: x.facts.Classes[:0], Classified: &x.answer}
	x.e = Event{Group: x.e.Group[:0], Facts: &x.facts, LeftNS: &x.left}
	x.line = lineReader{line: line}
	x.codec = codec{r: &x.line, brief: true, intern: &x.intern}
	read(&x.codec, &x.e, (*Event).members)
	return x.line.complete() && x.e.problem(len(x.codec.id) > 0) == ""
}
