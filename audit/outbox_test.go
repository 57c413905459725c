package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
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
		if err := l.Append(bg, failed("call", 1)); err != nil {
			t.Fatal(err)
		}
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

// TestA2OutboxKnowsTheHeadsWhileTheSinkIsDown checks the heads that the outbox has seen.
func TestA2OutboxKnowsTheHeadsWhileTheSinkIsDown(t *testing.T) {
	dir := t.TempDir()
	var sink MemorySink
	logTo(t, &sink, 1) // another writer's chain
	l := open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	_ = l.Append(bg, failed("call", 1))
	if err := l.Flush(bg); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	want, _ := sink.Heads(bg)
	l = open(t, headless{}, Options{Mode: Outbox, Outbox: dir})
	_ = l.Append(bg, failed("call", 2))
	closeLog(t, l)
	l = open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	if err := l.Flush(bg); err != nil {
		t.Fatal(err)
	}
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
	text := strings.Repeat("x", 8000)
	for n := range 5000 { // 40 MB: three files
		e := failed(fmt.Sprint("call-", n), 1)
		e.Decision.Err = errors.New(text)
		l.Observe(bg, e)
	}
	if err := l.Append(bg, failed("last", 1)); err != nil { // after all the others
		t.Fatal(err)
	}
	rotated := filepath.Join(dir, "outbox-*.jsonl")
	if files, _ := filepath.Glob(rotated); len(files) != 2 {
		t.Errorf("files while the sink is down: %v", files)
	}
	sink.down.Store(false)
	if err := l.Flush(bg); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	if files, _ := filepath.Glob(rotated); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
	checkChains(t, sink.Events())
	if n := len(only(sink.Events(), RetryAttempt)); n != 5001 {
		t.Errorf("%d events", n)
	}
}

func TestA2DamagedOutboxIsAnError(t *testing.T) {
	dir := t.TempDir()
	note := filepath.Join(dir, "forwarded.json")
	for _, content := range []string{"{", `{"cursor":"x"}`} {
		if err := os.WriteFile(note, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(bg, &MemorySink{}, Options{Mode: Outbox, Outbox: dir}); err == nil || !strings.Contains(err.Error(), "damaged; delete it") {
			t.Errorf("%s: %v", content, err)
		}
	}
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(note)
	if err := os.WriteFile(filepath.Join(dir, "outbox.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reported := make(chan struct{})
	l := open(t, &MemorySink{}, Options{Mode: Outbox, Outbox: dir, Reports: observe.Func(func(context.Context, *observe.Event) { close(reported) })})
	<-reported
	if err := l.Stats().Failing; !errors.Is(err, ErrLine) || !strings.Contains(err.Error(), "outbox: at 1:3") {
		t.Errorf("a line that is not an event: %v", err)
	}
	closeLog(t, l)
}
