package audit_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/canonical"
)

// lines is a source in memory.
type lines [][]byte

func (l lines) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	from := 0
	if after != "" {
		n, err := strconv.Atoi(after)
		if err != nil {
			return err
		}
		from = n
	}
	for i := from; i < len(l); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(strconv.Itoa(i+1), l[i]); err != nil {
			return err
		}
	}
	return nil
}

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// eventID makes IDs that are ordered by n.
func eventID(n int) string { return fmt.Sprintf("0195f3a2-0000-7000-8000-%012d", n) }

// chained puts events into one chain and returns their lines.
func chained(t testing.TB, chain string, events []audit.Event) lines {
	t.Helper()
	out := make(lines, 0, len(events))
	prev := ""
	for i, e := range events {
		e.ChainID, e.Seq, e.PrevHash = chain, uint64(i+1), prev
		line := sealed(t, &e)
		prev = e.Hash
		out = append(out, line)
	}
	return out
}

// sealed returns the line of an event with its hash.
func sealed(t testing.TB, e *audit.Event) []byte {
	t.Helper()
	if e.SchemaVersion == 0 {
		e.SchemaVersion = audit.SchemaVersion
	}
	e.Hash = ""
	raw, err := canonical.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	e.Hash = hex.EncodeToString(sum[:])
	if raw, err = canonical.Marshal(e); err != nil {
		t.Fatal(err)
	}
	return raw
}

func parsed(t testing.TB, line []byte) audit.Event {
	t.Helper()
	e, err := audit.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// plain makes a chain of n simple events; their IDs begin at first.
func plain(t testing.TB, chain string, first, n int) lines {
	t.Helper()
	events := make([]audit.Event, n)
	for i := range events {
		events[i] = audit.Event{
			ID: eventID(first + i), Type: audit.CallSucceeded, Time: begin.Add(time.Duration(first+i) * time.Millisecond),
			Surface: "call", Key: "user.Get", WorkID: fmt.Sprintf("work-%d", first+i), WorkSeq: 1, Decision: "done",
			Reason: "success", ExceptionMessage: "héllo \"quoted\" \u2028 \x01 \\ <&>",
		}
	}
	return chained(t, chain, events)
}

func headOf(t testing.TB, l lines) audit.Head {
	t.Helper()
	e := parsed(t, l[len(l)-1])
	return audit.Head{ChainID: e.ChainID, Seq: e.Seq, Hash: e.Hash}
}

func (l lines) clone() lines {
	out := make(lines, len(l))
	for i, line := range l {
		out[i] = slices.Clone(line)
	}
	return out
}
