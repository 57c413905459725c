package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/adapter/file"
)

// TestOffsetsOfALogThatWasEmptyFitNoOtherFile: the log was empty when its source was opened.
func TestOffsetsOfALogThatWasEmptyFitNoOtherFile(t *testing.T) {
	path := write(t, "a.jsonl", "")
	s := open(t, path, file.SourceOptions{Follow: true})
	rewrite(t, path, "{\"id\":\"old-1\"}\n{\"id\":\"old-2\"}\n{\"id\":\"old-3\"}\n")
	got := fetch(t, s, 10)
	if len(got) != 3 {
		t.Fatal(len(got))
	}
	ack(t, s, got...)
	closeAll(t, s)
	rewrite(t, path, "{\"id\":\"new-1\"}\n{\"id\":\"new-2\"}\n{\"id\":\"new-3\"}\n{\"id\":\"new-4\"}\n")
	for range 2 {
		s, err := file.OpenSource(path, file.SourceOptions{Follow: true})
		if err == nil || !strings.Contains(err.Error(), "the offsets belong to another input") {
			t.Errorf("the offsets are used for another file: %v", err)
			_ = s.Close()
		}
	}
}

func TestAFileThatHoldsNoOffsetsIsNotChanged(t *testing.T) {
	const text = "{\"id\":\"a\"}\n"
	path := write(t, "a.jsonl", text)
	if _, err := file.OpenSource(path, file.SourceOptions{Offsets: path}); err == nil || !strings.Contains(err.Error(), "not an offsets file") {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%.100q, %v", got, err)
	}
}

// TestALineThatIsTooLongStaysTooLong: one byte more than the limit, delivered twice.
func TestALineThatIsTooLongStaysTooLong(t *testing.T) {
	line := `{"id":"x","a":"` + strings.Repeat("y", 30) + `"}`
	s := open(t, write(t, "a.jsonl", line+"\n"), file.SourceOptions{MaxRecord: len(line) - 1})
	first := fetch(t, s, 1)
	if err := s.Nack(t.Context(), first[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	second := fetch(t, s, 1)
	a, b := first[0].Transaction, second[0].Transaction
	if a.ID() != b.ID() || string(a.Payload()) != string(b.Payload()) {
		t.Errorf("first %q %q %v, then %q %q %v", a.ID(), a.Payload(), file.Problem(a), b.ID(), b.Payload(), file.Problem(b))
	}
}

func TestACommaThatCannotSeparateColumnsIsRefused(t *testing.T) {
	path := write(t, "a.csv", "a,b\n")
	for _, comma := range []byte{'"', '\n', '\r', 0xA7} {
		if _, err := file.OpenSource(path, file.SourceOptions{Comma: comma, Forget: true}); err == nil || !strings.Contains(err.Error(), "cannot separate columns") {
			t.Errorf("a source with %q: %v", comma, err)
		}
		if _, err := file.OpenSink(path, file.SinkOptions{Comma: comma, Replace: true}); err == nil || !strings.Contains(err.Error(), "cannot separate columns") {
			t.Errorf("a sink with %q: %v", comma, err)
		}
	}
}

// TestL5OffsetsOfAnotherLayoutAreRefused: the same rows end elsewhere, so that an acknowledgement could end within a row.
func TestL5OffsetsOfAnotherLayoutAreRefused(t *testing.T) {
	path := write(t, "a.csv", "id;text\na;\"x\ny\"\nb;z\n")
	s := open(t, path, file.SourceOptions{})
	got := fetch(t, s, 1)
	if len(got) != 1 {
		t.Fatal(got)
	}
	ack(t, s, got...)
	closeAll(t, s)
	for _, o := range []file.SourceOptions{{Comma: ';'}, {Format: file.JSONL}} {
		if _, err := file.OpenSource(path, o); err == nil || !strings.Contains(err.Error(), "the offsets are those of another format or comma") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	open(t, path, file.SourceOptions{Comma: ','})
}

// TestL5ARowOfEmptyCellsIsNotBlank checks tab-separated columns: a row without any value is still a row.
func TestL5ARowOfEmptyCellsIsNotBlank(t *testing.T) {
	path := write(t, "a.csv", "a\tb\n1\t2\n\t\n\n3\t4\n")
	got := fetch(t, open(t, path, file.SourceOptions{Comma: '\t', Forget: true}), 10)
	if len(got) != 3 || string(got[1].Transaction.Payload()) != `{"a":"","b":""}` {
		t.Errorf("%d rows", len(got))
	}
}

// TestL5ACellKeepsItsLineBreaks: encoding/csv drops a carriage return before a line break.
func TestL5ACellKeepsItsLineBreaks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	sink := create(t, path, file.SinkOptions{})
	want := `{"a":"x\r\ny\nz\r","b":"\r\n\r\r\n"}`
	dispatch(t, sink, want)
	closeAll(t, sink)
	got := fetch(t, open(t, path, file.SourceOptions{Forget: true}), 10)
	if len(got) != 1 || string(got[0].Transaction.Payload()) != want {
		t.Errorf("%d rows, the first %s", len(got), got[0].Transaction.Payload())
	}
}
