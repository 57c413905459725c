package audit

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// encoder writes canonical JSON (RFC 8785): members in the order of their names, numbers as ECMAScript writes them, and in
// strings no escapes but the necessary ones. The same bytes as marshalling and transforming the event, at a tenth of the
// cost.
type encoder struct {
	b            []byte
	keys         []string // of a map, in their order
	hash, before int      // where the members hash and prev_hash of the last event are
}

// event appends e.
func (w *encoder) event(e *Event) {
	start := len(w.b)
	w.text(`,"action":`, e.Action)
	w.text(`,"actor":`, e.Actor)
	w.integer(`,"attempt_number":`, int64(e.Attempt))
	w.texts(`,"attributes":`, e.Attributes)
	if e.BudgetAllowed != nil {
		w.name(`,"budget_allowed":`)
		w.b = strconv.AppendBool(w.b, *e.BudgetAllowed)
	}
	w.text(`,"budget_reason":`, string(e.BudgetReason))
	w.text(`,"chain_id":`, e.ChainID)
	w.text(`,"circuit_state":`, e.Circuit)
	w.text(`,"core_version":`, e.CoreVersion)
	w.text(`,"correlation_id":`, e.CorrelationID)
	w.integer(`,"count":`, int64(e.Count))
	w.integer(`,"deciding":`, int64(e.Deciding))
	w.text(`,"decision":`, e.Decision)
	w.truth(`,"delay_external":`, e.External)
	w.nanos(`,"delay_ns":`, e.DelayNS)
	if e.Delay != 0 {
		w.name(`,"delay_seconds":`)
		w.b = appendNumber(w.b, e.Delay)
	}
	w.truth(`,"denied":`, e.Denied)
	w.text(`,"detail":`, e.Detail)
	w.nanos(`,"elapsed_ns":`, e.ElapsedNS)
	w.name(`,"event_id":`)
	w.b = appendString(w.b, e.ID)
	w.name(`,"event_type":`)
	w.b = appendString(w.b, string(e.Type))
	w.text(`,"exception_message":`, e.ExceptionMessage)
	w.text(`,"exception_type":`, e.ExceptionType)
	if e.Facts != nil {
		w.name(`,"facts":`)
		w.facts(e.Facts)
	}
	w.integer(`,"fence":`, e.Fence)
	w.text(`,"final_exception_message":`, e.FinalExceptionMessage)
	w.text(`,"final_exception_type":`, e.FinalExceptionType)
	w.text(`,"from":`, e.From)
	if len(e.Group) > 0 {
		w.name(`,"group":`)
		w.integers(e.Group)
	}
	w.hash = len(w.b)
	w.text(`,"hash":`, e.Hash)
	w.rest(e)
	w.end(start)
}

// rest writes the members behind hash.
func (w *encoder) rest(e *Event) {
	if len(e.Heads) > 0 {
		w.name(`,"heads":`)
		w.heads(e.Heads)
	}
	w.integer(`,"hedge_index":`, int64(e.HedgeIndex))
	w.text(`,"idempotency_key":`, e.IdempotencyKey)
	w.text(`,"key":`, e.Key)
	if e.LeftNS != nil {
		w.name(`,"left_ns":`)
		w.b = appendNanos(w.b, *e.LeftNS)
	}
	w.text(`,"left_reason":`, string(e.LeftReason))
	w.integer(`,"lost":`, int64(e.Lost))
	w.text(`,"matched_rule":`, string(e.MatchedRule))
	w.integer(`,"max_attempts":`, int64(e.MaxAttempts))
	w.text(`,"operation":`, e.Operation)
	w.text(`,"outcome_category":`, e.OutcomeCategory)
	w.text(`,"outcome_class":`, string(e.OutcomeClass))
	if len(e.OutcomeClasses) > 0 {
		w.name(`,"outcome_classes":`)
		w.b = append(w.b, '[')
		for i, c := range e.OutcomeClasses {
			w.comma(i)
			w.b = appendString(w.b, string(c))
		}
		w.b = append(w.b, ']')
	}
	w.text(`,"outcome_kind":`, e.OutcomeKind)
	w.text(`,"outcome_reason":`, string(e.OutcomeReason))
	if len(e.Policy) > 0 {
		w.name(`,"policy":`)
		w.b = append(w.b, e.Policy...)
	}
	w.text(`,"policy_id":`, e.PolicyID)
	w.text(`,"policy_revision":`, e.PolicyRevision)
	w.before = len(w.b)
	w.text(`,"prev_hash":`, e.PrevHash)
	w.nanos(`,"pushback_ns":`, e.PushbackNS)
	w.text(`,"reason":`, string(e.Reason))
	w.text(`,"retry_category":`, e.Category)
	w.integer(`,"retry_index":`, int64(e.RetryIndex))
	w.name(`,"schema_version":`)
	w.b = strconv.AppendInt(w.b, int64(e.SchemaVersion), 10)
	if e.Seed != 0 {
		w.name(`,"seed":"`)
		w.b = strconv.AppendUint(w.b, e.Seed, 10)
		w.b = append(w.b, '"')
	}
	w.integer(`,"seq":`, int64(e.Seq))
	w.integer(`,"state_attempt":`, int64(e.StateNumber))
	w.integer(`,"state_max_attempts":`, int64(e.StateLimit))
	w.text(`,"surface":`, e.Surface)
	w.text(`,"tenant_id":`, e.TenantID)
	w.name(`,"timestamp":"`)
	w.b = e.Time.AppendFormat(w.b, time.RFC3339Nano)
	w.b = append(w.b, '"')
	w.text(`,"to":`, e.To)
	w.nanos(`,"took_ns":`, e.TookNS)
	w.integer(`,"total_attempts":`, int64(e.TotalAttempts))
	w.text(`,"trace_id":`, e.TraceID)
	w.text(`,"work_id":`, e.WorkID)
	w.integer(`,"work_seq":`, int64(e.WorkSeq))
}

func (w *encoder) facts(f *Facts) {
	start := len(w.b)
	if len(f.Classes) > 0 {
		w.name(`,"classes":`)
		w.b = append(w.b, '[')
		for i, m := range f.Classes {
			w.comma(i)
			w.b = append(w.b, `{"class":`...)
			w.b = appendString(w.b, string(m.Class))
			w.text(`,"parent":`, string(m.Parent))
			w.b = append(w.b, '}')
		}
		w.b = append(w.b, ']')
	}
	if f.Classified != nil {
		w.name(`,"classified":`)
		w.outcome(f.Classified)
	}
	w.text(`,"ended":`, string(f.Ended))
	w.truth(`,"failed":`, f.Failed)
	w.text(`,"mark":`, f.Mark)
	w.nanos(`,"pushback_ns":`, f.PushbackNS)
	w.truth(`,"timed_out":`, f.TimedOut)
	w.end(start)
}

func (w *encoder) outcome(o *Outcome) {
	start := len(w.b)
	w.texts(`,"attributes":`, o.Attributes)
	w.text(`,"category":`, o.Category)
	w.text(`,"class":`, string(o.Class))
	w.name(`,"kind":`)
	w.b = appendString(w.b, o.Kind)
	w.nanos(`,"pushback_ns":`, o.PushbackNS)
	w.text(`,"reason":`, string(o.Reason))
	w.end(start)
}

func (w *encoder) heads(heads []Head) {
	w.b = append(w.b, '[')
	for i, h := range heads {
		w.comma(i)
		w.b = append(w.b, `{"chain_id":`...)
		w.b = appendString(w.b, h.ChainID)
		w.b = append(w.b, `,"hash":`...)
		w.b = appendString(w.b, h.Hash)
		w.b = append(w.b, `,"seq":`...)
		w.b = strconv.AppendUint(w.b, h.Seq, 10)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

// name begins a member. Each brings a comma, and end makes a brace of the first.
func (w *encoder) name(quoted string) { w.b = append(w.b, quoted...) }

// end ends the object whose members begin at start.
func (w *encoder) end(start int) {
	if len(w.b) == start {
		w.b = append(w.b, '{')
	}
	w.b[start] = '{'
	w.b = append(w.b, '}')
}

func (w *encoder) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

func (w *encoder) text(name, s string) {
	if s != "" {
		w.name(name)
		w.b = appendString(w.b, s)
	}
}

func (w *encoder) integer(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

func (w *encoder) integers(list []int) {
	w.b = append(w.b, '[')
	for i, n := range list {
		w.comma(i)
		w.b = strconv.AppendInt(w.b, int64(n), 10)
	}
	w.b = append(w.b, ']')
}

func (w *encoder) nanos(name string, n Nanos) {
	if n != 0 {
		w.name(name)
		w.b = appendNanos(w.b, n)
	}
}

func (w *encoder) truth(name string, b bool) {
	if b {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *encoder) texts(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.name(name)
	w.keys = sortedKeys(w.keys[:0], m)
	w.b = append(w.b, '{')
	for i, k := range w.keys {
		w.comma(i)
		w.b = appendString(w.b, k)
		w.b = append(w.b, ':')
		w.b = appendString(w.b, m[k])
	}
	w.b = append(w.b, '}')
}

const hexDigits = "0123456789abcdef"

// appendString writes s as RFC 8785 section 3.2.2.2 says. What is not UTF-8 becomes U+FFFD, as encoding/json does.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := len(b)
	if b = append(b, s...); !asItIs(b[start:]) {
		b = appendEscaped(b[:start], s)
	}
	return append(b, '"')
}

// asItIs reports whether text is ASCII that needs no escape. It looks at eight bytes at a time: the top bit of each is set
// where the byte is no ASCII, or a subtraction went below zero, of 0x20 from the byte or of 1 from its difference to a
// character that is escaped.
func asItIs(text []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		x := binary.LittleEndian.Uint64(text)
		if (x|(x-ones*' ')|((x^ones*'"')-ones)|((x^ones*'\\')-ones))&tops != 0 {
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func appendEscaped(b []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i++
		start = i
	}
	return append(b, s[start:]...)
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\t':
		return append(b, `\t`...)
	case '\n':
		return append(b, `\n`...)
	case '\f':
		return append(b, `\f`...)
	case '\r':
		return append(b, `\r`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendNumber writes f as ECMAScript does: the shortest digits that give f back, and an exponent below 1e-6 and from 1e21
// on.
func appendNumber(b []byte, f float64) []byte {
	size := math.Abs(f)
	if size != 0 && (size < 1e-6 || size >= 1e21) {
		b = strconv.AppendFloat(b, f, 'e', -1, 64)
		if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-2] == '0' { // e-09 is written e-9
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
		return b
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}
