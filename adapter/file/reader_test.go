package file

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// short is a file that returns fewer bytes than asked for.
type short struct {
	text string
	most int
}

func (s *short) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(s.text)) {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.most)], s.text[at:])
	return n, nil
}

// cut is a line or row as the tests compare it.
type cut struct {
	From, Start, End int64
	Line, Lines      int
	Data, Problem    string
}

func cuts(t interface{ Fatal(...any) }, r *reader, last bool) (list []cut) {
	for {
		rec, ok, err := r.next(context.Background(), last)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return list
		}
		list = append(list, cut{rec.from, rec.start, rec.end, rec.line, rec.lines, string(rec.data), rec.problem})
	}
}

func TestL5LinesHaveTheirPositions(t *testing.T) {
	text := "\xEF\xBB\xBFone\r\n\n  \ntwo\n0123456789a\nthree"
	got := cuts(t, newReader(strings.NewReader(text), 10, &byLine{}), true)
	want := []cut{
		{0, 3, 8, 1, 1, "one", ""},
		{8, 12, 16, 4, 3, "two", ""},
		{16, 16, 28, 5, 1, "", "longer than 10 bytes"},
		{28, 28, 33, 6, 0, "three", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	followed := cuts(t, newReader(strings.NewReader(text), 10, &byLine{}), false)
	if diff := cmp.Diff(want[:3], followed); diff != "" {
		t.Errorf("a line without an end counts while the file is followed:\n%s", diff)
	}
}

func TestL5AVeryLongLineIsNotBuffered(t *testing.T) {
	r := newReader(strings.NewReader("a\n"+strings.Repeat("x", 10<<20)+"\nb\n"), 1000, &byLine{})
	got := cuts(t, r, true)
	if len(got) != 3 || got[1].Problem != "longer than 1000 bytes" || got[1].Line != 2 || got[2].Data != "b" || got[2].Line != 3 {
		t.Errorf("%+v", got)
	}
	if len(r.room) > 4*firstBuffer {
		t.Errorf("the buffer has grown to %d bytes", len(r.room))
	}
}

// TestL5LinesDoNotDependOnReadSizes checks that lines do not depend on the sizes of the reads.
func TestL5LinesDoNotDependOnReadSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.StringMatching(`[ab ]{0,12}`)).Draw(t, "lines")
		text := strings.Join(list, "\n") + rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "end")
		r := newReader(&short{text, rapid.IntRange(1, 9).Draw(t, "pieces")}, 8, &byLine{})
		var got, want []string
		end, line := int64(0), 0
		for _, c := range cuts(t, r, true) {
			if c.From != end || c.Line <= line {
				t.Fatalf("%+v follows %d in line %d", c, end, line)
			}
			end, line = c.End, c.Line
			got = append(got, c.Data+c.Problem)
		}
		for _, l := range strings.Split(text, "\n") {
			l = strings.TrimRight(l, "\r")
			switch {
			case len(l) > 8:
				want = append(want, "longer than 8 bytes")
			case strings.TrimSpace(l) != "":
				want = append(want, l)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: %s", text, diff)
		}
	})
}

// TestL5RowsMatchEncodingCSV checks that the reader finds the same rows as encoding/csv.
func TestL5RowsMatchEncodingCSV(t *testing.T) {
	field := rapid.StringMatching(`[a",\n ]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.SliceOfN(rapid.SliceOfN(field, 2, 4), 1, 6).Draw(t, "table")
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		if err := w.WriteAll(table); err != nil {
			t.Fatal(err)
		}
		r := newReader(&short{text.String(), rapid.IntRange(1, 9).Draw(t, "pieces")}, 1000, &byRow{comma: ','})
		parse := &rows{comma: ','}
		var got [][]string
		for _, c := range cuts(t, r, true) {
			fields, err := parse.fields([]byte(c.Data))
			if err != nil {
				t.Fatalf("%q: %v", c.Data, err)
			}
			got = append(got, append([]string(nil), fields...))
		}
		if diff := cmp.Diff(table, got); diff != "" {
			t.Fatalf("%q: %s", text.String(), diff)
		}
	})
}

func TestL5AnUnclosedQuoteSpoilsOneLine(t *testing.T) {
	text := "a,\"b\nc,d\ne,f\n"
	got := cuts(t, newReader(strings.NewReader(text), 100, &byRow{comma: ','}), true)
	if len(got) != 3 || !strings.Contains(got[0].Problem, "quote") || got[0].Data != "a,\"b" || got[1].Data != "c,d" || got[2].Data != "e,f" || got[2].Line != 3 {
		t.Errorf("%+v", got)
	}
	long := "a,\"" + strings.Repeat("b\n", 1000) + "\"\nlast,row\n"
	got = cuts(t, newReader(strings.NewReader(long), 100, &byRow{comma: ','}), true)
	if got[len(got)-1].Data != "last,row" {
		t.Errorf("a row that is too long affected the last row: %+v", got[len(got)-1])
	}
}

func TestABadRowDoesNotAffectOthers(t *testing.T) {
	parse := &rows{comma: ';'}
	for _, bad := range []string{`a"b;c`, "a;\"b\"c", "\xff;a"} {
		if _, err := parse.fields([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
		if got, err := parse.fields([]byte("a;\"b;c\"")); err != nil || !cmp.Equal(got, []string{"a", "b;c"}) {
			t.Errorf("after %q: %q, %v", bad, got, err)
		}
	}
}

func TestL9AReadObeysItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := newReader(strings.NewReader("a\n"), 10, &byLine{})
	if _, _, err := r.next(ctx, true); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := cuts(t, r, true); len(got) != 1 {
		t.Errorf("%+v: the line is lost", got)
	}
}
