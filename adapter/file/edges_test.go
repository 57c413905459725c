package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/pipeline"
)

// TestOffsetsOfALogThatWasEmptyFitNoOtherFile: the log was empty when its source was opened.
func TestOffsetsOfALogThatWasEmptyFitNoOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	s, err := file.OpenSource(path, file.SourceOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	write("{\"id\":\"old-1\"}\n{\"id\":\"old-2\"}\n{\"id\":\"old-3\"}\n")
	got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 10})
	if err != nil || len(got) != 3 {
		t.Fatal(len(got), err)
	}
	if errs := s.Ack(t.Context(), got); errs != nil {
		t.Fatal(errs)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	write("{\"id\":\"new-1\"}\n{\"id\":\"new-2\"}\n{\"id\":\"new-3\"}\n{\"id\":\"new-4\"}\n")
	for range 2 {
		s, err = file.OpenSource(path, file.SourceOptions{Follow: true})
		if err == nil || !strings.Contains(err.Error(), "the offsets belong to another input") {
			t.Errorf("the offsets are used for another file: %v", err)
			_ = s.Close()
		}
	}
}

func TestAFileThatHoldsNoOffsetsIsNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	const text = "{\"id\":\"a\"}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := file.OpenSource(path, file.SourceOptions{Offsets: path}); err == nil || !strings.Contains(err.Error(), "not an offsets file") {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%.100q, %v", got, err)
	}
}

// TestALineThatIsTooLongStaysTooLong: one byte more than the limit, delivered twice.
func TestALineThatIsTooLongStaysTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	line := `{"id":"x","a":"` + strings.Repeat("y", 30) + `"}`
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := file.OpenSource(path, file.SourceOptions{MaxRecord: len(line) - 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	first, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Nack(t.Context(), first[0], 0, nil); err != nil {
		t.Fatal(err)
	}
	second, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	a, b := first[0].Transaction, second[0].Transaction
	if a.ID() != b.ID() || string(a.Payload()) != string(b.Payload()) {
		t.Errorf("first %q %q %v, then %q %q %v", a.ID(), a.Payload(), file.Problem(a), b.ID(), b.Payload(), file.Problem(b))
	}
}

func TestACommaThatCannotSeparateColumnsIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("id;text\na;\"x\ny\"\nb;z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := file.OpenSource(path, file.SourceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 1})
	if err != nil || len(got) != 1 || s.Ack(t.Context(), got) != nil || s.Close() != nil {
		t.Fatal(got, err)
	}
	for _, o := range []file.SourceOptions{{Comma: ';'}, {Format: file.JSONL}} {
		if _, err := file.OpenSource(path, o); err == nil || !strings.Contains(err.Error(), "the offsets are those of another format or comma") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	s, err = file.OpenSource(path, file.SourceOptions{Comma: ','})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

// TestL5ARowOfEmptyCellsIsNotBlank checks tab-separated columns: a row without any value is still a row.
func TestL5ARowOfEmptyCellsIsNotBlank(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("a\tb\n1\t2\n\t\n\n3\t4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := file.OpenSource(path, file.SourceOptions{Comma: '\t', Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 10})
	if err != nil || len(got) != 3 || string(got[1].Transaction.Payload()) != `{"a":"","b":""}` {
		t.Errorf("%d rows, %v", len(got), err)
	}
}

// TestL5ACellKeepsItsLineBreaks: encoding/csv drops a carriage return before a line break.
func TestL5ACellKeepsItsLineBreaks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	sink, err := file.OpenSink(path, file.SinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"x\r\ny\nz\r","b":"\r\n\r\r\n"}`
	if err := sink.Dispatch(t.Context(), pipeline.NewTransaction("1", []byte(want))); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := file.OpenSource(path, file.SourceOptions{Forget: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 10})
	if err != nil || len(got) != 1 || string(got[0].Transaction.Payload()) != want {
		t.Errorf("%d rows, %v, the first %s", len(got), err, got[0].Transaction.Payload())
	}
}
