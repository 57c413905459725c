package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

func create(t testing.TB, path string, o file.SinkOptions) *file.Sink {
	t.Helper()
	sink, err := file.OpenSink(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sink.Suspend() })
	return sink
}

func closeAll(t testing.TB, list ...io.Closer) {
	t.Helper()
	for _, c := range list {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func dispatch(t *testing.T, s *file.Sink, payloads ...string) {
	t.Helper()
	for i, p := range payloads {
		if err := s.Dispatch(t.Context(), pipeline.NewTransaction(fmt.Sprint(i), []byte(p))); err != nil {
			t.Fatal(err)
		}
	}
}

func contains(t *testing.T, path, want string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil || string(raw) != want {
		t.Errorf("%s: %q instead of %q (%v)", filepath.Base(path), raw, want, err)
	}
}

func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s exists (%v)", filepath.Base(path), err)
	}
}

func TestL11OutputAppearsAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	sink := create(t, path, file.SinkOptions{})
	dispatch(t, sink, `{"a":1}`, "[1,\n 2]")
	absent(t, path)
	closeAll(t, sink)
	contains(t, path, "{\"a\":1}\n[1,2]\n")
	absent(t, path+".part")
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	if err := sink.Dispatch(t.Context(), pipeline.NewTransaction("", []byte("1"))); !errors.Is(err, file.ErrClosed) {
		t.Error(err)
	}
}

func TestL11AFileIsReplacedOnlyOnRequest(t *testing.T) {
	path := write(t, "out.jsonl", "old\n")
	if _, err := file.OpenSink(path, file.SinkOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	sink := create(t, path, file.SinkOptions{Replace: true})
	dispatch(t, sink, "1")
	contains(t, path, "old\n")
	closeAll(t, sink)
	contains(t, path, "1\n")
}

// TestL11AFileThatAppearsMeanwhileIsKept checks that Close does not replace such a file unasked, and keeps the sink's own records.
func TestL11AFileThatAppearsMeanwhileIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	sink := create(t, path, file.SinkOptions{})
	dispatch(t, sink, "1")
	rewrite(t, path, "other\n")
	if err := sink.Close(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	contains(t, path, "other\n")
	if err := create(t, path, file.SinkOptions{Replace: true}).Close(); err != nil {
		t.Fatal(err)
	}
	contains(t, path, "1\n")
}

// TestL11TheNextSinkContinues checks that a sink continues the file that a crash left and cuts off a partial record.
func TestL11TheNextSinkContinues(t *testing.T) {
	for name, c := range map[string]struct{ left, first, want string }{
		"out.jsonl": {"1\n2\n{\"half", "3", "1\n2\n3\n"},
		"out.csv":   {"a,b\n1,\"x\ny\"\n2,\"half\n", `{"b":"3","a":"2"}`, "a,b\n1,\"x\ny\"\n2,3\n"},
	} {
		path := filepath.Join(t.TempDir(), name)
		rewrite(t, path+".part", c.left)
		sink := create(t, path, file.SinkOptions{})
		dispatch(t, sink, c.first)
		if err := sink.Suspend(); err != nil {
			t.Fatal(err)
		}
		absent(t, path)
		sink = create(t, path, file.SinkOptions{})
		closeAll(t, sink)
		contains(t, path, c.want)
	}
}

func TestL11AppendingKeepsEarlierRecords(t *testing.T) {
	for text, want := range map[string]string{"": "1\n", "old\n": "old\n1\n", "old": "old\n1\n"} {
		path := write(t, "out.jsonl", text)
		sink := create(t, path, file.SinkOptions{Append: true})
		dispatch(t, sink, "1")
		closeAll(t, sink)
		contains(t, path, want)
	}
	for _, header := range []string{"b,a\n", "b,a"} {
		path := write(t, "out.csv", header)
		sink := create(t, path, file.SinkOptions{Append: true})
		dispatch(t, sink, `{"a":1,"b":2}`)
		closeAll(t, sink)
		contains(t, path, "b,a\n2,1\n")
	}
	if _, err := file.OpenSink(write(t, "out.csv", "b,a\n"), file.SinkOptions{Append: true, Columns: []string{"a", "b"}}); err == nil {
		t.Error("other columns were accepted")
	}
}

func TestL7TwoSinksDoNotShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	sink := create(t, path, file.SinkOptions{})
	if _, err := file.OpenSink(path, file.SinkOptions{}); !errors.Is(err, file.ErrLocked) {
		t.Errorf("%v", err)
	}
	if err := sink.Suspend(); err != nil {
		t.Fatal(err)
	}
	create(t, path, file.SinkOptions{})
}

func TestL3AnUnwritableTransactionIsAPermanentError(t *testing.T) {
	dir := t.TempDir()
	lines := create(t, filepath.Join(dir, "out.jsonl"), file.SinkOptions{})
	table := create(t, filepath.Join(dir, "out.csv"), file.SinkOptions{Columns: []string{"a"}})
	for _, c := range []struct {
		sink    *file.Sink
		payload string
	}{{lines, "nonsense"}, {lines, ""}, {table, "1"}, {table, `{"b":1}`}, {table, `{}`}, {table, `{"a":1`},
		{table, `{"a":1}{"a":2}`}, {table, "{\"a\":\"\xff\"}"}} {
		err := c.sink.Dispatch(t.Context(), pipeline.NewTransaction("t", []byte(c.payload)))
		if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
			t.Errorf("%q: %v", c.payload, err)
		}
	}
}

// TestL11NothingIsAppendedInsideQuotes: rows after the half of a row that a crash has left would be a part of its last cell.
func TestL11NothingIsAppendedInsideQuotes(t *testing.T) {
	for _, text := range []string{"a,b\n1,\"x", "a,b\n1,\"x\n", "a,b\n1,\"x\"\"", "a,b\n1,\"x\ny\n"} {
		path := write(t, "out.csv", text)
		sink, err := file.OpenSink(path, file.SinkOptions{Append: true})
		if err == nil || !strings.Contains(err.Error(), "line 2: a quote is not closed") {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			_ = sink.Close()
		}
		contains(t, path, text)
	}
}

// TestCSVColumnsCanBeReadBack checks that a sink accepts no header that a source would refuse.
func TestCSVColumnsCanBeReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	for _, columns := range [][]string{{"a", "a"}, {"a", ""}} {
		if _, err := file.OpenSink(path, file.SinkOptions{Columns: columns}); err == nil || !strings.Contains(err.Error(), "column 2") {
			t.Errorf("%q: %v", columns, err)
		}
	}
	sink := create(t, path, file.SinkOptions{})
	for _, payload := range []string{`{"a":1,"a":2}`, `{"":1}`} {
		err := sink.Dispatch(t.Context(), pipeline.NewTransaction("t", []byte(payload)))
		if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent {
			t.Errorf("%s: %v", payload, err)
		}
	}
	dispatch(t, sink, `{"a":1,"b":2}`, `{"b":3,"b":4}`)
	closeAll(t, sink)
	contains(t, path, "a,b\n1,2\n,4\n")
}

// TestCSVBlankFilesGetAHeader appends to files that hold only a byte order mark or blank lines.
func TestCSVBlankFilesGetAHeader(t *testing.T) {
	for _, blank := range []string{"\xEF\xBB\xBF", "\n\n\n\n\n\n", ""} {
		path := write(t, "out.csv", blank)
		sink := create(t, path, file.SinkOptions{Append: true})
		dispatch(t, sink, `{"a":1}`, `{"a":2}`)
		closeAll(t, sink)
		contains(t, path, "a\n1\n2\n")
	}
}

func TestCSVCells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	sink := create(t, path, file.SinkOptions{Comma: ';'})
	dispatch(t, sink, `{"a":"x;y","b":1.50,"c":null}`, `{"c":{"d":[1]},"a":true}`)
	closeAll(t, sink)
	contains(t, path, "a;b;c\n\"x;y\";1.50;\ntrue;;\"{\"\"d\"\":[1]}\"\n")
	single := filepath.Join(t.TempDir(), "out.csv")
	sink = create(t, single, file.SinkOptions{Columns: []string{"a"}})
	dispatch(t, sink, `{"a":""}`)
	closeAll(t, sink)
	contains(t, single, "a\n\"\"\n")
	empty := filepath.Join(t.TempDir(), "out.csv")
	if err := create(t, empty, file.SinkOptions{Columns: []string{"a", "b"}}).Close(); err != nil {
		t.Fatal(err)
	}
	contains(t, empty, "a,b\n")
}

func TestL10ConcurrentDispatchesShareWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	sink := create(t, path, file.SinkOptions{})
	var group sync.WaitGroup
	want := map[string]bool{}
	for worker := range 50 {
		for i := range 40 {
			want[fmt.Sprintf(`"%d-%d"`, worker, i)] = true
		}
		group.Go(func() {
			for i := range 40 {
				if err := sink.Dispatch(context.Background(), pipeline.NewTransaction("", fmt.Appendf(nil, `"%d-%d"`, worker, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	closeAll(t, sink)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	last := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		got[strings.TrimSpace(line)] = true
		var worker, i int
		if _, err := fmt.Sscanf(line, "\"%d-%d\"", &worker, &i); err != nil {
			t.Fatal(err)
		}
		if last[fmt.Sprint(worker)] != i {
			t.Fatalf("%s is out of its goroutine's order", line)
		}
		last[fmt.Sprint(worker)]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
