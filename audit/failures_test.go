package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// hanging is a sink that blocks until its gate is closed.
type hanging struct {
	MemorySink
	gate chan struct{}
}

func (s *hanging) Append(ctx context.Context, entries []Entry) error {
	select {
	case <-s.gate:
		return s.MemorySink.Append(ctx, entries)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestA2UnusableFilesAreErrors(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(filepath.Join(dir, "folder.jsonl"), FileOptions{}); err == nil {
		t.Error("a folder is opened as a log")
	}
	if err := NewFileSource(filepath.Join(dir, "missing", "audit.jsonl")).Read(bg, "", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the log is missing: %v", err)
	}
	(&FileSink{names: namesOf(filepath.Join(dir, "missing", "audit.jsonl"))}).removeBefore(9)

	path := filepath.Join(dir, "heads.jsonl")
	if err := os.Mkdir(namesOf(path).heads(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path, FileOptions{}); err == nil || !strings.Contains(err.Error(), "heads.heads.json") {
		t.Errorf("the saved heads are a folder: %v", err)
	}
	if _, _, err := namesOf(path).scan(); err == nil {
		t.Error("the heads are collected without the saved ones")
	}
	if h := headOf([]byte("rubbish")); h != (Head{}) {
		t.Errorf("garbage has the head %+v", h)
	}
}

func TestA2TheNextAppendReturnsTheErrorsOfASegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{})
	logTo(t, sink, 1)
	sink.options.MaxSize = 100
	whole := sink.file
	sink.file, _ = os.Open(path)
	sink.file.Close()
	if _, err := sink.Segment(bg); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file cannot be synced: %v", err)
	}
	sink.file = whole
	if err := os.Mkdir(sink.names.rotated(1), 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := sink.Segment(bg); err == nil || n != 1 {
		t.Errorf("the file cannot be renamed: segment %d, %v", n, err)
	}
	if err := os.Remove(sink.names.rotated(1)); err != nil {
		t.Fatal(err)
	}
	if n, err := sink.Segment(bg); err != nil || n != 2 {
		t.Errorf("segment %d, %v", n, err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sink.Append(bg, nil); err == nil {
		t.Error("appended to a folder")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	logTo(t, sink, 1)
	events, _ := eventsOf(t, sink, "")
	checkChains(t, events)
	if len(only(events, RetryAttempt)) != 2 {
		t.Errorf("%d events", len(events))
	}
}

func TestA3ErrorsOfReadingAreReturned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{})
	logTo(t, sink, 2)
	closed, _ := os.Open(path)
	closed.Close()
	unreadable, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unreadable.Close()
	if err := checkContent(closed); err == nil {
		t.Error("a closed file reports an event as its first byte")
	}
	for name, file := range map[string]*os.File{"closed": closed, "opened for writing": unreadable} {
		if _, err := files.EndOfLines(file); err == nil {
			t.Errorf("%s: the end of lines is found", name)
		}
		if _, err := (segmentFile{File: file}).readLines(bg, position{1, 0}, nil); err == nil {
			t.Errorf("%s: lines are read", name)
		}
	}
	err = NewFileSource(path).Read(bg, "", func(string, []byte) error {
		return os.WriteFile(namesOf(path).heads(), []byte("{"), 0o600)
	})
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("heads that were damaged meanwhile: %v", err)
	}
}

func TestA3LinesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	writeFile(t, path, nil)
	if err := os.Truncate(path, maxLine+1<<20); err != nil {
		t.Fatal(err)
	}
	if err := NewFileSource(path).Read(bg, "", nil); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v", err)
	}
}

func TestA4AnUnreadableTemporaryFileIsAnError(t *testing.T) {
	s := chunkStore{dir: t.TempDir()}
	s.add(1, []byte("events"))
	if got, err := s.load(1, nil); err != nil || string(got) != "events" {
		t.Errorf("%q, %v", got, err)
	}
	s.file.Close()
	if _, err := s.load(1, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
	if err := s.close(); err == nil {
		t.Error("closed twice")
	}
}

func TestA2WaitingForRoomEndsWithRoomATimeoutOrTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &hanging{gate: make(chan struct{})}
		l := open(t, sink, Options{Buffer: 1, Timeout: time.Second})
		results := make(chan error, 4)
		send := func(work string) {
			go func() { results <- l.Append(bg, failed(work, 1)) }()
			synctest.Wait()
		}
		send("in hand")
		if err := <-results; !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "may still be stored") {
			t.Errorf("a sink that hangs: %v", err)
		}
		send("queued")
		send("waits for room")
		close(sink.gate)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		closeLog(t, l)
		if n := len(only(sink.Events(), RetryAttempt)); n != 3 {
			t.Errorf("%d events", n)
		}

		sink = &hanging{gate: make(chan struct{})}
		l = open(t, sink, Options{Buffer: 1, Timeout: time.Minute})
		for _, work := range []string{"in hand", "queued", "waits for room"} {
			send(work)
		}
		go func() { results <- l.Close(bg) }()
		if err := <-results; !errors.Is(err, ErrClosed) {
			t.Errorf("waited for room while the log was closed: %v", err)
		}
		close(sink.gate)
		for range 3 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestA2AppendWithoutAnEffect(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Mode: Buffered})
	if err := l.Append(bg, &observe.Event{Type: observe.CallStarted}); err != nil {
		t.Error(err)
	}
	l.journaled.add(&observe.Event{Type: observe.CallEnded})
	closeLog(t, l)
	if err := l.Append(bg, failed("call", 1)); err != nil || l.Stats().Lost != 1 {
		t.Errorf("a buffered log that is closed: %v, %d lost", err, l.Stats().Lost)
	}
	if len(sink.Events()) != 0 {
		t.Errorf("%+v", sink.Events())
	}
}

func TestA2OutboxFailures(t *testing.T) {
	dir := t.TempDir()
	note := filepath.Join(dir, "forwarded.json")
	if err := os.Mkdir(note, 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{Mode: Outbox, Outbox: dir}
	if _, err := Open(bg, &MemorySink{}, o); err == nil {
		t.Error("the note is a folder")
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		sink := &hanging{gate: make(chan struct{})}
		l := open(t, sink, o)
		appendTo(t, l, failed("call", 1))
		ended, cancel := context.WithCancel(bg)
		cancel()
		if err := l.outbox.wait(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
		if err := l.Close(ended); err == nil && len(sink.Events()) > 0 {
			t.Error("forwarded")
		}
		if err := l.outbox.close(bg); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		if err := l.outbox.Append(bg, nil); !errors.Is(err, os.ErrClosed) {
			t.Errorf("append after close: %v", err)
		}

		l = open(t, &MemorySink{}, o) // forwards the remaining events
		flush(t, l)
		l.outbox.cancel()
		<-l.outbox.done // although there was nothing to forward
		closeLog(t, l)

		down := &flaky{}
		down.down.Store(true)
		l = open(t, down, o)
		appendTo(t, l, failed("call", 2))
		synctest.Wait()
		l.outbox.cancel()
		<-l.outbox.done // although it is waiting for the next try
		closeLog(t, l)

		if err := os.Remove(note); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(note, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := (&outbox{note: note, at: position{1, 0}, moved: make(chan struct{})}).advance(position{1, 1}, nil); err == nil {
			t.Error("noted in a folder")
		}
	})
}

func TestA1PoliciesAndHeadsThatJSONCannotHold(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{})
	defer closeLog(t, l)
	broken := &policy.Policy{Key: policy.ParseKey("user.Get")}
	broken.Retry.BackoffMultiplier = math.NaN()
	for _, change := range [][2]*policy.Policy{{getUser, broken}, {broken, getUser}} {
		if err := l.PolicyChanged(bg, PolicyChange{From: change[0], To: change[1], Actor: "ann"}); err == nil {
			t.Error("a policy with NaN is recorded")
		}
	}
	if r := (&snapshots{}).revision(broken); r != "" {
		t.Errorf("revision %s", r)
	}
	if _, err := snapshot(PolicySnapshot, broken, "r"); err == nil {
		t.Error("a snapshot with NaN")
	}
	key := make([]byte, 64)
	if _, err := SignHeads(nil, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), key); err == nil {
		t.Error("a time that JSON cannot hold is signed")
	}
}

func TestA4UnknownMembersOfFactsAreIgnored(t *testing.T) {
	var x eventReader
	x.intern = interner{&symbols{numbers: map[string]uint64{}}, map[string]interned{}}
	line := `{"event_id":"e","event_type":"retry_attempt","facts":{"classes":[{"class":"quota","new":1,"parent":"p"}],` +
		`"classified":{"class":"quota","new":[2]},"failed":true,"new":{"a":3}},"outcome_category":"system","schema_version":1,"state_max_attempts":7,` +
		`"timestamp":"2026-03-01T12:00:00Z"}`
	if !x.read([]byte(line)) || len(x.e.Facts.Classes) != 1 || x.e.Facts.Classified.Class != "quota" || !x.e.Facts.Failed || x.e.StateLimit != 7 {
		t.Errorf("%+v, facts %+v", x.e, x.e.Facts)
	}
}

func TestA2CountsAreRecordedBeforeTheLimitOfKeys(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Sample: -1})
	for n := range mostCounts + 1 {
		e := decisionOf(fmt.Sprint("call-", n), 1, nil, decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess})
		e.Work.Key = policy.ParseKey(fmt.Sprint("key.", n))
		appendTo(t, l, e)
		if n < mostCounts-1 {
			continue
		}
		if counted := only(sink.Events(), CallCount); len(counted) != mostCounts {
			t.Errorf("%d keys are recorded after %d", len(counted), n+1)
		}
	}
	closeLog(t, l)
	if counted := only(sink.Events(), CallCount); len(counted) != mostCounts+1 {
		t.Errorf("%d keys are recorded", len(counted))
	}
}

func TestA4UnknownDecisionsAreNotReplayed(t *testing.T) {
	e := &Event{Decision: "perhaps"}
	if _, err := (&replayer{}).decision(e, &getUser.Retry, classify.Outcome{}); !errors.Is(err, errValue) {
		t.Errorf("replay: %v", err)
	}
	if _, err := (&simulator{}).step(nil, e); err == nil {
		t.Error("what if accepts it")
	}
}

func TestA3SegmentsHaveTheNamesOfTheirFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{MaxSize: 100})
	logTo(t, sink, 2)
	source := NewFileSource(path)
	if got := source.Path(1); got != sink.names.rotated(1) {
		t.Errorf("the first is %s", got)
	}
	if got := source.Path(sink.segment); got != path {
		t.Errorf("the last is %s", got)
	}
}

func TestA4ImpossibleRecordedOutcomes(t *testing.T) {
	facts := decision.Facts{Failed: true}
	outcome, rule := decision.Judge(&getUser.Retry, &facts)
	later := outcome
	later.Pushback = time.Second
	p := &replayer{
		policies: map[string]*policy.Policy{"r": getUser},
		outcomes: map[int]classify.Outcome{1: outcome, 2: outcome},
	}
	_, deciding, err := groupOutcome(&Event{Group: []int{1, 2}}, getUser, p.outcomes)
	if err != nil {
		t.Fatal(err)
	}
	e := &Event{
		PolicyRevision: "r", MatchedRule: rule, Facts: &Facts{Failed: true}, Group: []int{1, 2}, Deciding: deciding,
		OutcomeKind: outcome.Kind.String(), OutcomeReason: outcome.Reason, OutcomeCategory: outcome.Category.String(), PushbackNS: Nanos(time.Second),
	}
	d, err := p.event(e)
	if err != nil || d == nil || d.What != inGroup || d.Recorded != describeOutcome(later) || d.Replayed != describeOutcome(outcome) {
		t.Errorf("%+v, %v", d, err)
	}
	if !strings.HasSuffix(describeOutcome(later), ", pushback 1s") {
		t.Errorf("described as %s", describeOutcome(later))
	}
	e.Facts = &Facts{Mark: "unheard of"}
	if _, err := p.event(e); !errors.Is(err, errValue) {
		t.Errorf("facts with an unknown mark: %v", err)
	}
	var c WhatIfCategory
	if c.count(workEnd{unknown: UnknownRecord}, workEnd{}); c.FailedEarlier != 1 {
		t.Errorf("work without a recorded end that would have failed: %+v", c)
	}
}

// TestA3HeadsOfASegmentAreSavedBeforeTheNextBegins: a file may be moved away as soon as it is renamed, also where the disk was full
// in between, and where the process died between the two.
func TestA3HeadsOfASegmentAreSavedBeforeTheNextBegins(t *testing.T) {
	entry := func(seq uint64) []Entry {
		return []Entry{{Event: &Event{ChainID: "c", Seq: seq, Hash: "h"}, Line: fmt.Appendf(nil, `{"chain_id":"c","hash":"h","seq":%d}`, seq)}}
	}
	for name, rotate := range map[string]func(t *testing.T, sink *FileSink) *FileSink{
		"a full disk": func(t *testing.T, sink *FileSink) *FileSink {
			heads := sink.names.heads()
			if err := os.Mkdir(heads, 0o700); err != nil { // nothing can be written there
				t.Fatal(err)
			}
			if n, err := sink.Segment(bg); err == nil || n != 1 {
				t.Errorf("segment %d, %v", n, err)
			}
			if sink.Append(bg, entry(2)) == nil {
				t.Error("nothing says that the heads cannot be saved")
			}
			if list, err := sink.names.ended(); err != nil || len(list) > 0 {
				t.Errorf("files %v could be moved away before their heads were saved: %v", list, err)
			}
			if err := os.Remove(heads); err != nil {
				t.Fatal(err)
			}
			if n, err := sink.Segment(bg); err != nil || n != 2 {
				t.Errorf("with room: segment %d, %v", n, err)
			}
			return sink
		},
		"a kill": func(t *testing.T, sink *FileSink) *FileSink {
			path := sink.names.path
			if err := errors.Join(sink.Close(), os.Rename(path, sink.names.rotated(1))); err != nil {
				t.Fatal(err)
			}
			return openFile(t, path, FileOptions{MaxSize: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			sink := openFile(t, path, FileOptions{MaxSize: 1})
			if err := sink.Append(bg, entry(1)); err != nil {
				t.Fatal(err)
			}
			sink = rotate(t, sink)
			if err := sink.Append(bg, entry(2)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Remove(sink.names.rotated(1)), sink.Close()); err != nil {
				t.Fatal(err)
			}
			saved, err := namesOf(path).saved()
			if err != nil || saved.Segment != 2 || len(saved.Heads) != 1 || saved.Heads[0].Seq != 1 {
				t.Errorf("saved heads %+v: %v", saved, err)
			}
			if n, err := namesOf(path).current(); err != nil || n != 2 {
				t.Errorf("the current segment is %d after the first was moved away: %v", n, err)
			}
		})
	}
}
