package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func TestA2OutboxReportsThatItIsNotForwarded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		sink.down.Store(true)
		var reports []string
		l := open(t, sink, Options{Mode: Outbox, Outbox: dir, Reports: observe.Func(func(_ context.Context, e *observe.Event) {
			reports = append(reports, e.Report.Detail)
		})})
		appendTo(t, l, failed("call", 1))
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errSink) {
			t.Errorf("flush: %v", err)
		}
		if err := l.Stats().Failing; !errors.Is(err, errSink) {
			t.Errorf("failing: %v", err)
		}
		if want := []string{"the outbox is not forwarded: sink unreachable"}; !cmp.Equal(want, reports) {
			t.Errorf("reports %q", reports)
		}
		if err := l.Close(bg); err != nil { // nothing is lost
			t.Error(err)
		}
		if err := l.outbox.wait(bg); !errors.Is(err, ErrClosed) {
			t.Errorf("wait after close: %v", err)
		}
	})
}

// TestA2OutboxIsForwardedWhereTheNoteCannotBeWritten without a pause after each batch: the full disk needs the room of what was forwarded.
func TestA2OutboxIsForwardedWhereTheNoteCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		sink.down.Store(true)
		l := open(t, sink, Options{Mode: Outbox, Outbox: dir})
		if err := os.Mkdir(l.outbox.note, 0o700); err != nil { // nothing can be written there
			t.Fatal(err)
		}
		for i := range 6 * outboxBatch {
			l.Observe(bg, failed(fmt.Sprintf("call-%d", i), 1))
		}
		appendTo(t, l, failed("last", 1))
		time.Sleep(3 * lastBackoff) // the pauses have their full length
		sink.down.Store(false)
		begun := time.Now()
		if err := l.Flush(bg); err != nil || time.Since(begun) > lastBackoff {
			t.Errorf("forwarded after %v: %v", time.Since(begun), err)
		}
		if l.Stats().Failing == nil {
			t.Error("nothing says that the note cannot be written")
		}
		closeLog(t, l)
	})
}

// TestA2OutboxKnowsTheHeadsWhileTheSinkIsDown checks the heads that the outbox has seen.
func TestA2OutboxKnowsTheHeadsWhileTheSinkIsDown(t *testing.T) {
	dir := t.TempDir()
	var sink MemorySink
	logTo(t, &sink, 1) // another writer's chain
	l := open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	_ = l.Append(bg, failed("call", 1))
	flush(t, l)
	closeLog(t, l)
	want, _ := sink.Heads(bg)
	l = open(t, headless{}, Options{Mode: Outbox, Outbox: dir})
	_ = l.Append(bg, failed("call", 2))
	closeLog(t, l)
	l = open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	flush(t, l)
	closeLog(t, l)
	opened := only(sink.Events(), ChainOpened)
	if len(want) != 2 || len(opened) != 3 || !cmp.Equal(want, opened[2].Heads) {
		t.Errorf("opened with %+v, want %+v", opened[len(opened)-1].Heads, want)
	}
}

func TestA2OutboxDeletesForwardedFiles(t *testing.T) {
	dir := t.TempDir()
	sink := &flaky{}
	sink.down.Store(true)
	l := open(t, sink, Options{Mode: Outbox, Outbox: dir, Timeout: time.Minute})
	e := Event{Type: OperatorAction, Actor: "ann", Reason: policy.ReasonOperator, Detail: strings.Repeat("x", 800_000)}
	for range 25 { // 20 MB: two files
		if err := l.Record(bg, e); err != nil {
			t.Fatal(err)
		}
	}
	rotated := filepath.Join(dir, "outbox-*.jsonl")
	if files, _ := filepath.Glob(rotated); len(files) != 1 {
		t.Errorf("files while the sink is down: %v", files)
	}
	sink.down.Store(false)
	flush(t, l)
	closeLog(t, l)
	if files, _ := filepath.Glob(rotated); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
	checkChains(t, sink.Events())
	if n := len(only(sink.Events(), OperatorAction)); n != 25 {
		t.Errorf("%d events", n)
	}
}

func TestA2DamagedOutboxIsAnError(t *testing.T) {
	dir := t.TempDir()
	note := filepath.Join(dir, "forwarded.json")
	for _, content := range []string{"{", `{"cursor":"x"}`} {
		writeFile(t, note, []byte(content))
		if _, err := Open(bg, &MemorySink{}, Options{Mode: Outbox, Outbox: dir}); err == nil || !strings.Contains(err.Error(), "damaged; delete it") {
			t.Errorf("%s: %v", content, err)
		}
	}
	writeFile(t, note, nil)
	_ = os.Remove(note)
	writeFile(t, filepath.Join(dir, "outbox.jsonl"), []byte("{\"actor\":\"\"}\n"))
	reported := make(chan struct{})
	l := open(t, &MemorySink{}, Options{Mode: Outbox, Outbox: dir, Reports: observe.Func(func(context.Context, *observe.Event) { close(reported) })})
	<-reported
	if err := l.Stats().Failing; !errors.Is(err, ErrLine) || !strings.Contains(err.Error(), "outbox: at 1:13") {
		t.Errorf("a line that is not an event: %v", err)
	}
	closeLog(t, l)
}

// chained returns n sealed lines of a chain.
func chained(id string, n int) (lines [][]byte) {
	var w encoder
	c, s := chain{id: id}, newSealer()
	for range n {
		var e Event
		e.begin(OperatorAction, time.Now())
		e.Actor, e.Action = "ann", "job_requeue"
		start := len(w.b)
		l := c.place(&w, &e)
		s.seal(w.b, start, l, &e)
		lines = append(lines, append(bytes.Clone(w.b[start:l.end]), '\n'))
	}
	return lines
}

// TestA2OutboxForwardsWhatIsAppendedToAnOlderFile: the file lacks lines that the note has, as after a restored backup.
func TestA2OutboxForwardsWhatIsAppendedToAnOlderFile(t *testing.T) {
	dir := t.TempDir()
	var sink MemorySink
	o := Options{Mode: Outbox, Outbox: dir}
	l := open(t, &sink, o)
	for range 3 {
		appendTo(t, l, failed("a", 1))
	}
	flush(t, l)
	closeLog(t, l)
	path := filepath.Join(dir, "outbox.jsonl")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, bytes.SplitAfter(raw, []byte("\n"))[0])
	reported := 0
	o.Reports = observe.Func(func(context.Context, *observe.Event) { reported++ })
	l = open(t, &sink, o)
	appendTo(t, l, failed("b", 1))
	flush(t, l)
	if !slices.ContainsFunc(sink.Events(), func(e Event) bool { return e.WorkID == "b" }) || reported != 1 {
		t.Errorf("the new event is lost, or not reported: %d reports", reported)
	}
	closeLog(t, l)
}

// TestA2OutboxForwardsOnlyStoredLines: an append that fails is taken back, and must not have been forwarded.
func TestA2OutboxForwardsOnlyStoredLines(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Mode: Outbox, Outbox: t.TempDir()})
	appendTo(t, l, failed("a", 1))
	flush(t, l)
	before := len(sink.Events())
	f := l.outbox.file
	if _, err := f.file.WriteAt(chained("other", 1)[0], f.size); err != nil { // as before its sync
		t.Fatal(err)
	}
	if err := l.outbox.forward(); err != nil || len(sink.Events()) != before {
		t.Errorf("%d events are forwarded: %v", len(sink.Events())-before, err)
	}
	closeLog(t, l)
}

func TestA2OutboxForwardsTheLinesBeforeADamagedOne(t *testing.T) {
	dir := t.TempDir()
	lines := bytes.Join(append(chained("c", 3), append(make([]byte, 512), '\n')), nil)
	writeFile(t, filepath.Join(dir, "outbox.jsonl"), lines)
	var sink MemorySink
	reported := make(chan struct{})
	l := open(t, &sink, Options{Mode: Outbox, Outbox: dir, Reports: observe.Func(func(context.Context, *observe.Event) { close(reported) })})
	<-reported
	if n := len(sink.Events()); n != 3 {
		t.Errorf("%d events", n)
	}
	closeLog(t, l)
}

// TestA2OutboxLetsTheSinkRotate: where the outbox begins a file, the sink may begin one.
func TestA2OutboxLetsTheSinkRotate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	sink := openFile(t, path, FileOptions{MaxSize: 4000})
	defer sink.Close()
	l := open(t, sink, Options{Mode: Outbox, Outbox: filepath.Join(dir, "outbox")})
	l.outbox.file.options.MaxSize = 4000
	for i := range 30 {
		appendTo(t, l, failed(fmt.Sprint("work", i), 1))
		flush(t, l)
	}
	closeLog(t, l)
	list, err := sink.names.ended()
	if err != nil || len(list) < 3 {
		t.Errorf("files %v %v", list, err)
	}
	for _, n := range list { // each can be replayed by itself
		if r, err := Replay(bg, NewFileSource(sink.names.rotated(n)), ReplayOptions{}); err != nil || r.Decisions == 0 || r.CannotReplay.Policy > 0 {
			t.Errorf("file %d: %+v %v", n, r, err)
		}
	}
}

// TestA2OutboxGoesOnWithoutItsNote: what was forwarded is not forwarded again and again while the note cannot be written.
func TestA2OutboxGoesOnWithoutItsNote(t *testing.T) {
	dir := t.TempDir()
	var sink MemorySink
	l := open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	appendTo(t, l, failed("a", 1))
	flush(t, l)
	note := filepath.Join(dir, "forwarded.json")
	_ = os.Remove(note)
	if err := os.MkdirAll(filepath.Join(note, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, failed("b", 1))
	flush(t, l)
	n := len(sink.Events())
	for range 3 {
		if err := l.outbox.forward(); err == nil {
			t.Error("the note is written into a folder")
		}
	}
	if len(sink.Events()) != n {
		t.Errorf("%d events are forwarded again", len(sink.Events())-n)
	}
	if err := os.RemoveAll(note); err != nil {
		t.Fatal(err)
	}
	if err := l.outbox.forward(); err != nil {
		t.Error(err)
	}
	closeLog(t, l)
	if raw, err := os.ReadFile(note); err != nil || !strings.Contains(string(raw), `"cursor":"1:`) {
		t.Errorf("the note at the end: %s %v", raw, err)
	}
}
