package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
)

func TestA2SlogSinkLogsEveryEvent(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, nil))
	sink := NewSlogSink(logger, slog.LevelInfo)
	logTo(t, sink, 2)
	var events []Event
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var record struct{ Level, Msg, Event, Decision, Key string }
		if err := decoder.Decode(&record); err != nil {
			t.Fatal(err)
		}
		e, err := ParseLine([]byte(record.Event))
		if err != nil || record.Msg != string(e.Type) || record.Level != "INFO" || record.Decision != e.Decision || record.Key != e.Key {
			t.Errorf("%v: %+v", err, record)
		}
		events = append(events, e)
	}
	checkChains(t, events)
	if len(events) != 4 {
		t.Errorf("%d events", len(events))
	}
	if heads, err := sink.Heads(bg); heads != nil || err != nil {
		t.Errorf("%v, %v", heads, err)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	out.Reset()
	logTo(t, NewSlogSink(logger, slog.LevelDebug), 1)
	if out.Len() > 0 {
		t.Error("logged below the logger's level")
	}
}

func TestA2MemorySinkStoresEachEventOnce(t *testing.T) {
	var sink MemorySink
	e := Event{SchemaVersion: 1, ID: "a", Type: CallCount, Time: start, ChainID: "c", Seq: 1}
	var w encoder
	w.event(&e)
	for range 2 {
		if err := sink.Append(bg, []Entry{{Event: &e, Line: w.b}}); err != nil {
			t.Fatal(err)
		}
	}
	w.b[0] = 'x' // sinks keep copies
	events, cursor := eventsOf(t, &sink, "")
	if len(events) != 1 || cursor != "1" {
		t.Errorf("%d events, cursor %s", len(events), cursor)
	}
	if rest, _ := eventsOf(t, &sink, cursor); len(rest) != 0 {
		t.Errorf("%d events after the last", len(rest))
	}
	if err := sink.Read(bg, "x", nil); err == nil {
		t.Error("a bad cursor is accepted")
	}
	if err := sink.Read(bg, "", func(string, []byte) error { return errDown }); !errors.Is(err, errDown) {
		t.Errorf("the reader's error: %v", err)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := sink.Read(ctx, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	sink.lines[0] = []byte("{}")
	defer func() {
		if recover() == nil {
			t.Error("a line that is not an event is returned")
		}
	}()
	sink.Events()
}
