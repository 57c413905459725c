package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/lists"
)

// AuditOptions says how the suite opens a sink and reads from it.
type AuditOptions struct {
	// Open returns a fresh, empty sink on each call. The suite closes it. Required.
	Open func(t *testing.T) audit.Sink
	// Source returns a reader of an open sink's events. Nil if the sinks are sources themselves.
	Source func(t *testing.T, sink audit.Sink) audit.Source
	// Reopen opens the data of a sink that the suite has closed. The suite closes it. Required.
	Reopen func(t *testing.T, closed audit.Sink) audit.Sink
	// Second opens another handle on the data of an open sink, as another process would. The suite closes it before the
	// first. Nil if a sink allows only one writer.
	Second func(t *testing.T, first audit.Sink) audit.Sink
	// Repeats is for sinks that store an event as often as it is appended. Readers then have to drop repetitions, and the
	// suite does so too.
	Repeats bool
}

// Audit checks that a sink keeps the contract of audit.Sink, and its reader the contract of audit.Source. It skips cases that
// need a second handle if Second is nil.
func Audit(t *testing.T, o AuditOptions) {
	for _, c := range slices.Concat(auditAppendCases(), auditReadCases(), auditFindCases(), auditChainCases()) {
		if c.shared && o.Second == nil {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := &sink{suite: suite{T: t, ctx: context.Background()}, options: o}
			s.use(o.Open(t))
			c.run(s)
		})
	}
}

// auditCase is one behaviour. Shared ones need a second handle.
type auditCase struct {
	name   string
	shared bool
	run    func(s *sink)
}

// sink is a sink under test.
type sink struct {
	suite
	audit.Sink
	audit.Source

	options AuditOptions
	closed  bool
}

// use makes a sink the one under test.
func (s *sink) use(opened audit.Sink) {
	s.Helper()
	s.Sink, s.closed = opened, false
	s.Source = s.sourceOf(opened)
	s.Cleanup(func() {
		if s.Sink == opened && !s.closed {
			s.report("Close", opened.Close())
		}
	})
}

func (s *sink) sourceOf(opened audit.Sink) audit.Source {
	s.Helper()
	if s.options.Source != nil {
		return s.options.Source(s.T, opened)
	}
	source, ok := opened.(audit.Source)
	if !ok {
		s.Fatalf("%T does not implement audit.Source: set AuditOptions.Source", opened)
	}
	return source
}

// shut closes the sink under test.
func (s *sink) shut() {
	s.Helper()
	s.closed = true
	s.need("Close", s.Close())
}

// reopen closes the sink under test and opens its data again.
func (s *sink) reopen() {
	s.Helper()
	before := s.Sink
	s.shut()
	s.use(s.options.Reopen(s.T, before))
}

// append stores entries and checks that the sink does not change them.
func (s *sink) append(entries ...audit.Entry) {
	s.Helper()
	text := func(e audit.Entry) string { return string(e.Line) + fmt.Sprintf("%+v", *e.Event) }
	before := lists.Map(entries, text)
	s.need(fmt.Sprintf("Append of %d entries", len(entries)), s.Append(s.ctx, entries))
	for i, e := range entries {
		if before[i] != text(e) {
			s.Fatalf("Append has changed entry %d, which belongs to its caller", i)
		}
	}
}

// stored is a line with its cursor.
type stored struct {
	cursor string
	line   string
}

// read returns everything after a cursor.
func (s *sink) read(after string) []stored {
	s.Helper()
	list, err := collect(s.ctx, s.Source, after)
	s.need(fmt.Sprintf("Read after %q", after), err)
	return list
}

func collect(ctx context.Context, source audit.Source, after string) (list []stored, err error) {
	err = source.Read(ctx, after, func(cursor string, line []byte) error {
		list = append(list, stored{cursor, string(line)})
		return nil
	})
	return list, err
}

// lines returns the lines of a list, without the repetitions that the sink may store.
func (s *sink) lines(list []stored) []string {
	var lines []string
	seen := map[string]bool{}
	for _, e := range list {
		if !s.options.Repeats || !seen[e.line] {
			lines = append(lines, e.line)
		}
		seen[e.line] = true
	}
	return lines
}

// holds fails the case unless a list has exactly the lines of the entries, in order.
func (s *sink) holds(list []stored, want ...audit.Entry) {
	s.Helper()
	noDiff(s, "lines", cmp.Diff(lists.Map(want, func(e audit.Entry) string { return string(e.Line) }), s.lines(list), cmpopts.EquateEmpty()))
}

// headsAre fails the case unless the sink has these heads.
func (s *sink) headsAre(want ...audit.Head) {
	s.Helper()
	got, err := s.Heads(s.ctx)
	s.need("Heads", err)
	if len(want)+len(got) == 0 {
		return
	}
	noDiff(s, "heads", cmp.Diff(want, got))
}

// chain makes the entries of a chain.
type chain struct {
	id   string
	head audit.Head
	at   time.Time
}

func newChain(id string) *chain {
	return &chain{id: id, at: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}
}

// next returns the next entry of the chain. Its line has the form that a Log writes.
func (c *chain) next(change ...func(*audit.Event)) audit.Entry {
	c.at = c.at.Add(1001 * time.Microsecond)
	e := &audit.Event{
		SchemaVersion: audit.SchemaVersion, ID: newID(), Type: audit.CallStopped, Time: c.at, Key: "service.Get", WorkID: fmt.Sprint("work-", c.head.Seq/3),
		Category: "RETRY_API_READ", Operation: "get", Attempt: 1, ChainID: c.id, Seq: c.head.Seq + 1, PrevHash: c.head.Hash,
	}
	for _, f := range change {
		f(e)
	}
	sum := sha256.Sum256(canonical(e))
	e.Hash = hex.EncodeToString(sum[:])
	c.head = audit.Head{ChainID: c.id, Seq: e.Seq, Hash: e.Hash}
	return audit.Entry{Event: e, Line: canonical(e)}
}

// take returns the next n entries.
func (c *chain) take(n int) []audit.Entry {
	entries := make([]audit.Entry, n)
	for i := range entries {
		entries[i] = c.next()
	}
	return entries
}

// canonical encodes an event as canonical JSON. Encoding a map sorts its members.
func canonical(e *audit.Event) []byte {
	plain, err := json.Marshal(e)
	if err != nil {
		panic(err) // the suite's own events
	}
	var members map[string]any
	numbers := json.NewDecoder(bytes.NewReader(plain))
	numbers.UseNumber()
	if err := numbers.Decode(&members); err != nil {
		panic(err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		panic(err)
	}
	// What the encoder escapes for JavaScript stands for itself in canonical JSON; pairs of backslashes come first.
	text := strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(out.String())
	return []byte(strings.TrimSuffix(text, "\n"))
}
