package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

func TestA3LinesAreCanonicalJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent().Draw(t, "event")
		c := chain{id: "chain", seq: e.Seq, hash: strings.Repeat("0", 64)}
		w := encoder{b: []byte("what was there before")}
		before := len(w.b)
		c.seal(&w, &e)
		line := w.b[before:]

		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jcs.Transform(raw)
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

func TestA3NotUTF8BecomesReplacementCharacters(t *testing.T) {
	for _, s := range []string{"\xff", "a\xc3", "\xe2\x82b", "ok\xf0\x9f\x98\x80\x80"} {
		want, _ := json.Marshal(s)
		if want, _ = jcs.Transform([]byte(`{"s":` + string(want) + `}`)); `{"s":`+string(appendString(nil, s))+"}" != string(want) {
			t.Errorf("%q is written %s, want %s", s, appendString(nil, s), want)
		}
	}
}

func TestA3ChainLinksEvents(t *testing.T) {
	c := chain{id: "chain"}
	var w encoder
	events := []Event{{SchemaVersion: 1, ID: "a", Type: CallCount}, {SchemaVersion: 1, ID: "b", Type: CallCount}}
	for i := range events {
		c.seal(&w, &events[i])
	}
	if a, b := events[0], events[1]; a.Seq != 1 || a.PrevHash != "" || b.Seq != 2 || b.PrevHash != a.Hash || b.ChainID != "chain" {
		t.Errorf("places in the chain: %+v, %+v", a, b)
	}
	if want := (Head{ChainID: "chain", Seq: 2, Hash: events[1].Hash}); c.head() != want {
		t.Errorf("head %+v, want %+v", c.head(), want)
	}
}

func TestA1BadLinesAreRefused(t *testing.T) {
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

func TestA1IDsAreUUIDv7(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := newID(start)
		if len(id) != 36 || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) || id[:13] != newID(start)[:13] || seen[id] {
			t.Fatalf("%s", id)
		}
		seen[id] = true
	}
	if newID(start) > newID(start.Add(1e6)) {
		t.Error("IDs do not sort by their time")
	}
}
