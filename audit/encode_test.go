package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

func TestA3LinesAreCanonicalJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent().Draw(t, "event")
		c := newTestChain("chain")
		if c.seq = e.Seq; c.seq > 0 {
			c.hash = strings.Repeat("ab", 32)
		}
		w := encoder{b: []byte("what was there before")}
		before := len(w.b)
		c.append(&w, &e)
		line := w.b[before:]

		want, err := jcs.Transform(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(line)); diff != "" {
			t.Fatalf("not the canonical form (-want +got):\n%s", diff)
		}

		cut := bytes.Replace(line, []byte(`"hash":"`+e.Hash+`",`), nil, 1)
		if sum := sha256.Sum256(cut); hex.EncodeToString(sum[:]) != e.Hash {
			t.Fatal("the hash is not that of the line without the member hash")
		}

		got, err := ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	})
}

func TestA3StoredEventsKeepTheirBytes(t *testing.T) {
	stored, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var sink MemorySink
	for line := range bytes.Lines(stored) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		sink.lines = append(sink.lines, line)
		e, err := ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		again, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(line), string(again)); diff != "" {
			t.Errorf("stored (-), written again (+):\n%s", diff)
		}
	}
	if report, err := Verify(bg, &sink, VerifyOptions{}); err != nil || !report.Intact() || report.Events != len(sink.lines) {
		t.Errorf("%v: %+v", err, report)
	}
}

func TestA1MembersMayBeInAnyOrder(t *testing.T) {
	line := ` { "timestamp": "2026-01-01T00:00:00.5Z", "event_type":"hedge", "schema_version":1, "operation":"\ud83d\ude00", "new": [ 1, {} ], "event_id":"a" }`
	e, err := ParseLine([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	want := Event{SchemaVersion: 1, ID: "a", Type: Hedge, Time: time.Date(2026, 1, 1, 0, 0, 0, 5e8, time.UTC), Operation: "😀"}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestA3EmptyFactsAreAnEmptyObject(t *testing.T) {
	w := encoder{}
	w.event(&Event{Facts: &Facts{}})
	if !strings.Contains(string(w.b), `"facts":{},`) {
		t.Errorf("%s", w.b)
	}
}

func TestA3InvalidUTF8BecomesReplacementCharacters(t *testing.T) {
	for _, s := range []string{"\xff", "a\xc3", "\xe2\x82b", "ok\xf0\x9f\x98\x80\x80"} {
		want, _ := json.Marshal(s)
		if want, _ = jcs.Transform([]byte(`{"s":` + string(want) + `}`)); `{"s":`+string(appendString(nil, s))+"}" != string(want) {
			t.Errorf("%q is written %s, want %s", s, appendString(nil, s), want)
		}
	}
}

func TestA3EscapesAreFoundAtEveryPosition(t *testing.T) {
	for length := range 26 {
		plain := strings.Repeat("a", length)
		if got := string(appendString(nil, plain)); got != `"`+plain+`"` {
			t.Errorf("%q is written %s", plain, got)
		}
		for at := range length {
			for _, c := range []string{"\"", "\\", "\n", "\x00", "\x1f", "\x7f", "\xff", "é"} {
				s := plain[:at] + c + plain[at+1:]
				raw, _ := json.Marshal(s)
				want, _ := jcs.Transform([]byte(`{"action":` + string(raw) + `}`))
				var w encoder
				e := Event{Action: s}
				w.event(&e)
				if !strings.HasPrefix(string(w.b), strings.TrimSuffix(string(want), "}")) {
					t.Fatalf("%q is written %s, want %s", s, w.b, want)
				}
			}
		}
	}
}

func TestA3ChainLinksEvents(t *testing.T) {
	c := newTestChain("chain")
	var w encoder
	events := []Event{{SchemaVersion: 1, ID: "a", Type: CallCount}, {SchemaVersion: 1, ID: "b", Type: CallCount}}
	for i := range events {
		c.append(&w, &events[i])
	}
	if a, b := events[0], events[1]; a.Seq != 1 || a.PrevHash != "" || b.Seq != 2 || b.PrevHash != a.Hash || b.ChainID != "chain" {
		t.Errorf("places in the chain: %+v, %+v", a, b)
	}
}

func TestA1BadLinesAreRejected(t *testing.T) {
	for name, line := range map[string]string{
		"empty":               ``,
		"not JSON":            `{"event_id":`,
		"a number as its ID":  `{"schema_version":1,"event_id":1}`,
		"newer schema":        `{"schema_version":2,"event_id":"a","event_type":"hedge","timestamp":"2026-01-01T00:00:00Z"}`,
		"no schema":           `{"event_id":"a","event_type":"hedge","timestamp":"2026-01-01T00:00:00Z"}`,
		"no ID":               `{"schema_version":1,"event_type":"hedge","timestamp":"2026-01-01T00:00:00Z"}`,
		"no type":             `{"schema_version":1,"event_id":"a","timestamp":"2026-01-01T00:00:00Z"}`,
		"no time":             `{"schema_version":1,"event_id":"a","event_type":"hedge"}`,
		"text as nanoseconds": `{"schema_version":1,"event_id":"a","event_type":"hedge","timestamp":"2026-01-01T00:00:00Z","delay_ns":"soon"}`,
	} {
		if _, err := ParseLine([]byte(line)); err == nil || !strings.HasPrefix(err.Error(), "audit: not an event") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestA1EscapedSurrogatesAreRead: another writer may escape characters that canonical JSON does not.
func TestA1EscapedSurrogatesAreRead(t *testing.T) {
	line := `{"action":"\ud83d\ude00","event_id":"a","event_type":"hedge","schema_version":1,"timestamp":"2026-01-01T00:00:00Z"}`
	if e, err := ParseLine([]byte(line)); err != nil || e.Action != "😀" {
		t.Errorf("%q, %v", e.Action, err)
	}
}

func TestA1NanosecondsKeepTheirValueInJSON(t *testing.T) {
	for n, want := range map[Nanos]string{0: `0`, -5: `-5`, exact: `9007199254740992`, exact + 1: `"9007199254740993"`, -exact - 1: `"-9007199254740993"`} {
		raw, err := json.Marshal(n)
		if err != nil || string(raw) != want {
			t.Errorf("%d is written %s, %v; want %s", n, raw, err, want)
		}
		var got Nanos
		if err := json.Unmarshal(raw, &got); err != nil || got != n {
			t.Errorf("%s is read as %d, %v", raw, got, err)
		}
	}
	if err := json.Unmarshal([]byte(`"soon"`), new(Nanos)); err == nil || !strings.Contains(err.Error(), `"soon" is not a number of nanoseconds`) {
		t.Error(err)
	}
}

// slow is a sink that lets callers run ahead of the writer, so that batches are filled, sealed and stored concurrently.
type slow struct{ MemorySink }

func (s *slow) Append(ctx context.Context, entries []Entry) error {
	time.Sleep(time.Millisecond)
	return s.MemorySink.Append(ctx, entries)
}

func TestA3PipelinedBatchesMakeOneChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 20 * mostEvents
		if testing.Short() {
			n /= 4
		}
		var sink slow
		l := open(t, &sink, Options{})
		for i := range n {
			l.Observe(bg, failed(fmt.Sprint("call-", i), 1))
		}
		closeLog(t, l)
		report, err := Verify(bg, &sink, VerifyOptions{})
		if err != nil || !report.Intact() || report.Events != n+2 {
			t.Fatalf("%v: %+v", err, report)
		}
		for i, e := range only(sink.Events(), RetryAttempt) {
			if e.WorkID != fmt.Sprint("call-", i) {
				t.Fatalf("event %d is an event of %s", i, e.WorkID)
			}
		}
	})
}

// testChain is a chain with its sealer.
type testChain struct {
	chain
	sealer
}

func newTestChain(id string) testChain { return testChain{chain{id: id}, newSealer()} }

// append places and seals e.
func (c *testChain) append(w *encoder, e *Event) {
	start := len(w.b)
	c.seal(w.b, start, c.place(w, e), e)
}
