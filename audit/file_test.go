package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
)

func openFile(t testing.TB, path string, o FileOptions) *FileSink {
	t.Helper()
	s, err := OpenFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// eventsOf reads a source from a cursor to its end, and also returns the last cursor.
func eventsOf(t testing.TB, s Source, after string) (list []Event, cursor string) {
	t.Helper()
	err := s.Read(bg, after, func(c string, line []byte) error {
		e, err := ParseLine(line)
		list, cursor = append(list, e), c
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list, cursor
}

// logTo appends n decisions, one batch each.
func logTo(t testing.TB, sink Sink, n int) {
	t.Helper()
	l := open(t, sink, Options{})
	for i := range n {
		appendTo(t, l, failed(fmt.Sprint("call-", i), 1))
	}
	closeLog(t, l)
}

// TestA3AForeignFileIsNotChanged: a file that cannot be a log is refused, and nothing is cut off it.
func TestA3AForeignFileIsNotChanged(t *testing.T) {
	for _, content := range []string{"buy milk\nand bread", `{"policies":[]}`, "{\n  \"a\": 1\n}", "\x00\x00\x00\x20ftypisom", "{}\n"} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		writeFile(t, path, []byte(content))
		if s, err := OpenFile(path, FileOptions{}); err == nil || !strings.Contains(err.Error(), "use another file") {
			t.Errorf("%q: %v", content, err)
			s.Close()
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q became %q, %v", content, got, err)
		}
	}
	for _, content := range []string{"", "{", `{"ac`, `{"action":"x`, strings.Repeat("\x00", 4096), strings.Repeat("\x00", 512) + "x\n"} { // what a crash leaves
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		writeFile(t, path, []byte(content))
		openFile(t, path, FileOptions{}).Close()
	}
}

func TestA3FileIsReadAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{MaxSize: 4000})
	logTo(t, sink, 30)
	events, _ := eventsOf(t, sink, "")
	checkChains(t, events)
	if n := len(only(events, RetryAttempt)); n != 30 {
		t.Errorf("%d decisions", n)
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "audit-*.jsonl"))
	if len(files) < 3 {
		t.Fatalf("rotated files: %v", files)
	}
	for _, f := range append(files, path, sink.names.heads(), sink.names.lock()) {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, err, info.Mode())
		}
	}
	for _, f := range append(files, path) { // each can be replayed separately
		alone, _ := eventsOf(t, NewFileSource(f), "")
		if f == path {
			alone, _ = eventsOf(t, NewFileSource(path), position{sink.segment, 0}.String())
		}
		if len(only(alone, PolicySnapshot)) != 1 {
			t.Errorf("%s holds no snapshot", f)
		}
	}
	for i := range events { // from every cursor, the remaining events
		var at string
		n := 0
		_ = sink.Read(bg, "", func(c string, _ []byte) error {
			if n++; n == i+1 {
				at = c
				return errDown
			}
			return nil
		})
		if rest, _ := eventsOf(t, sink, at); len(rest) != len(events)-i-1 || len(rest) > 0 && rest[0].Seq != events[i+1].Seq {
			t.Fatalf("%d events after cursor %s, want %d", len(rest), at, len(events)-i-1)
		}
	}
}

func TestTheTailOfFilesIsTheirEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{})
	logTo(t, sink, 5)
	source := NewFileSource(path)
	last := ""
	if err := source.Read(bg, "", func(cursor string, _ []byte) error { last = cursor; return nil }); err != nil {
		t.Fatal(err)
	}
	if tail, err := source.Tail(bg); err != nil || tail != last {
		t.Errorf("%q instead of %q, %v", tail, last, err)
	}
	sink.options.MaxSize = 1
	if _, err := sink.Segment(bg); err != nil {
		t.Fatal(err)
	}
	if tail, err := source.Tail(bg); err != nil || tail != (position{sink.segment, 0}).String() {
		t.Errorf("%q at the beginning of a file, %v", tail, err)
	}
}

func TestA3AFileContinuesAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var want []Head
	for i := range 3 {
		sink, err := OpenFile(path, FileOptions{MaxSize: 3000})
		if err != nil {
			t.Fatal(err)
		}
		before, _ := sink.Heads(bg)
		if diff := cmp.Diff(want, before); diff != "" {
			t.Errorf("heads when opened for the %d. time: %s", i+1, diff)
		}
		logTo(t, sink, 7)
		want, _ = sink.Heads(bg)
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
		if err := sink.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		if err := sink.Append(bg, nil); !errors.Is(err, os.ErrClosed) {
			t.Errorf("append after close: %v", err)
		}
		if _, err := sink.Segment(bg); !errors.Is(err, os.ErrClosed) {
			t.Errorf("segment after close: %v", err)
		}
	}
	events, _ := eventsOf(t, NewFileSource(path), "")
	checkChains(t, events)
	if len(want) != 3 || len(only(events, RetryAttempt)) != 21 {
		t.Errorf("%d chains, %d decisions", len(want), len(only(events, RetryAttempt)))
	}

	// Without saved heads, the log collects them from the files.
	if err := os.Remove(namesOf(path).heads()); err != nil {
		t.Fatal(err)
	}
	got, err := openFile(t, path, FileOptions{}).Heads(bg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestA3DamagedHeadsAreAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for _, content := range []string{"{", `{"segment":0}`} {
		writeFile(t, namesOf(path).heads(), []byte(content))
		if _, err := OpenFile(path, FileOptions{}); err == nil || !strings.Contains(err.Error(), "damaged; delete it") {
			t.Errorf("%s: %v", content, err)
		}
		if err := NewFileSource(path).Read(bg, "", nil); err == nil {
			t.Error("read past it")
		}
	}
}

func TestA2TornLineIsCutOff(t *testing.T) {
	for name, torn := range map[string]string{
		"half a line": `{"action":"hit","event_id":"0195`, "zeros": strings.Repeat("\x00", 5000), "long": strings.Repeat("x", 200<<10), "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			sink := openFile(t, path, FileOptions{})
			logTo(t, sink, 3)
			sink.Close()
			whole, _ := os.ReadFile(path)
			writeFile(t, path, append(bytes.Clone(whole), torn...))
			if events, _ := eventsOf(t, NewFileSource(path), ""); len(events) != 5 {
				t.Errorf("%d events are read while the line is unfinished", len(events))
			}
			sink = openFile(t, path, FileOptions{})
			if cut, _ := os.ReadFile(path); !bytes.Equal(whole, cut) {
				t.Errorf("%d bytes are left of %d", len(cut), len(whole))
			}
			logTo(t, sink, 1)
			events, _ := eventsOf(t, sink, "")
			checkChains(t, events)
			if len(events) != 8 || len(events[5].Heads) != 1 {
				t.Errorf("%d events", len(events))
			}
		})
	}
}

func TestA3OneWriterPerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	first := openFile(t, path, FileOptions{})
	if _, err := OpenFile(path, FileOptions{}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("second opener: %v", err)
	}
	first.Close()
	openFile(t, path, FileOptions{})
	if _, err := OpenFile(filepath.Join(t.TempDir(), "missing", "audit.jsonl"), FileOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

func TestA3FileIsReadWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{MaxSize: 5000, Sync: -1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		logTo(t, sink, 300)
	}()
	var events []Event
	cursor := ""
	for finished := false; !finished; {
		select {
		case <-done:
			finished = true
		default:
		}
		more, last := eventsOf(t, NewFileSource(path), cursor)
		events = append(events, more...)
		if len(more) > 0 {
			cursor = last
		}
	}
	checkChains(t, events)
	if n := len(only(events, RetryAttempt)); n != 300 {
		t.Errorf("%d decisions", n)
	}
}

func TestA3FilesMayBeMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{MaxSize: 3000})
	logTo(t, sink, 12)
	all, _ := eventsOf(t, sink, "")
	first, _ := eventsOf(t, NewFileSource(sink.names.rotated(1)), "")
	heads, _ := sink.Heads(bg)
	segment := sink.segment
	sink.removeBefore(segment - 1)
	rest, _ := eventsOf(t, sink, position{1, 10}.String())
	if len(rest) == 0 || len(rest) >= len(all)-len(first)+1 || rest[len(rest)-1].Hash != heads[0].Hash {
		t.Errorf("%d of %d events remain", len(rest), len(all))
	}
	sink.removeBefore(segment)
	sink.Close()
	sink = openFile(t, path, FileOptions{MaxSize: 3000})
	if again, _ := sink.Heads(bg); sink.segment != segment || !cmp.Equal(heads, again) {
		t.Errorf("segment %d, want %d; heads %v, want %v", sink.segment, segment, again, heads)
	}
}

// TestA3TheNumberOfAFileThatWasMovedAwayIsNotUsedAgain, although the process was killed as soon as the file had its number.
func TestA3TheNumberOfAFileThatWasMovedAwayIsNotUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{})
	logTo(t, sink, 1)
	sink.Close()
	if err := errors.Join(sink.saveHeads(true), os.Rename(path, filepath.Join(t.TempDir(), "moved"))); err != nil {
		t.Fatal(err)
	}
	heads, _ := sink.Heads(bg)
	for range 2 { // also if it is killed before it appends
		again := openFile(t, path, FileOptions{})
		if got, _ := again.Heads(bg); again.segment != 2 || !cmp.Equal(heads, got) {
			t.Errorf("segment %d; heads %v, want %v", again.segment, got, heads)
		}
		again.Close()
	}
}

func TestA3InvalidCursors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := NewFileSource(path).Read(bg, "", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	sink := openFile(t, path, FileOptions{})
	logTo(t, sink, 1)
	for _, cursor := range []string{"x", "1", "1:x", "1:-1", "7:0", ":"} {
		if err := sink.Read(bg, cursor, func(string, []byte) error { return nil }); err == nil {
			t.Errorf("cursor %q is accepted", cursor)
		}
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := sink.Read(ctx, "", func(string, []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := sink.Read(bg, "", func(string, []byte) error { return errDown }); !errors.Is(err, errDown) {
		t.Errorf("the reader's error: %v", err)
	}
}

func TestA3LongLinesAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{})
	l := open(t, sink, Options{})
	for n := range 3 {
		if err := l.Record(bg, Event{Type: OperatorAction, Detail: strings.Repeat("x", (n+1)*300<<10), Count: uint64(n + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	closeLog(t, l)
	events, _ := eventsOf(t, sink, "")
	checkChains(t, events)
	if len(events) != 4 || len(events[3].Detail) != 900<<10 || events[3].Count != 3 {
		t.Errorf("%d events", len(events))
	}
}

func TestA2AppendAfterAnErrorStoresOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink := openFile(t, path, FileOptions{})
	reported := make(chan struct{})
	l := open(t, sink, Options{Timeout: time.Minute, Reports: observe.Func(func(context.Context, *observe.Event) { close(reported) })})
	_ = l.Append(bg, failed("call-1", 1))
	whole := sink.file
	sink.mu.Lock()
	sink.file, _ = os.Open(path) // read-only
	sink.mu.Unlock()
	failing := make(chan error)
	go func() { failing <- l.Append(bg, failed("call-2", 1)) }()
	<-reported
	sink.mu.Lock()
	sink.file.Close()
	sink.file = whole
	sink.mu.Unlock()
	if err := <-failing; err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	events, _ := eventsOf(t, sink, "")
	checkChains(t, events)
	if n := len(only(events, RetryAttempt)); n != 2 {
		t.Errorf("%d decisions", n)
	}
}

func TestA2SyncInTheBackground(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		sink := openFile(t, path, FileOptions{Sync: time.Second})
		defer sink.Close()
		logTo(t, sink, 2)
		sink.mu.Lock()
		if sink.timer == nil {
			t.Error("no sync is due")
		}
		sink.mu.Unlock()
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		sink.mu.Lock()
		due := sink.timer
		sink.failed = errDown // as if it had failed
		sink.mu.Unlock()
		if due != nil {
			t.Error("still due")
		}
		if err := sink.Append(bg, nil); !errors.Is(err, errDown) {
			t.Errorf("the next append returns the error, not %v", err)
		}
		logTo(t, sink, 1)
	})
}

// TestA2KilledWriterLosesNothingThatWasAcknowledged kills a process while it is writing.
func TestA2KilledWriterLosesNothingThatWasAcknowledged(t *testing.T) {
	for _, mode := range []Mode{FailClosed, Outbox} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			child := exec.Command(os.Args[0], "-test.run=TestChildWrites")
			child.Env = append(os.Environ(), "AUDIT_CHILD="+dir, "AUDIT_MODE="+string(mode))
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			acknowledged := 0
			for acknowledged < 200 {
				var n int
				if _, err := fmt.Fscanln(out, &n); err != nil {
					t.Fatal(err)
				}
				acknowledged++
			}
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = child.Wait()
			sink := openFile(t, filepath.Join(dir, "audit.jsonl"), FileOptions{})
			o := Options{Mode: mode}
			if mode == Outbox {
				o.Outbox = filepath.Join(dir, "outbox")
			}
			l := open(t, sink, o)
			appendTo(t, l, failed("after", 1))
			flush(t, l)
			closeLog(t, l)
			all, _ := eventsOf(t, sink, "")
			var once []Event // readers drop repetitions
			seen := map[string]bool{}
			for _, e := range all {
				if !seen[e.ID] {
					once = append(once, e)
				}
				seen[e.ID] = true
			}
			checkChains(t, once)
			if n := len(only(once, RetryAttempt)); n < acknowledged+1 {
				t.Errorf("%d decisions are stored, %d were acknowledged", n, acknowledged)
			}
		})
	}
}

// TestChildWrites is the killed process; in an ordinary run it does nothing.
func TestChildWrites(t *testing.T) {
	dir := os.Getenv("AUDIT_CHILD")
	if dir == "" {
		return
	}
	sink := openFile(t, filepath.Join(dir, "audit.jsonl"), FileOptions{MaxSize: 20_000})
	o := Options{Mode: Mode(os.Getenv("AUDIT_MODE"))}
	if o.Mode == Outbox {
		o.Outbox = filepath.Join(dir, "outbox")
	}
	l := open(t, sink, o)
	for n := range 1_000_000 {
		appendTo(t, l, failed(fmt.Sprint("call-", n), 1))
		fmt.Println(n)
	}
}
