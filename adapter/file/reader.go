package file

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
)

// LineError reports a line that is not a record.
type LineError struct {
	Path    string
	Line    int   // from 1
	Offset  int64 // of its first byte
	Problem string
}

// Error implements error.
func (e *LineError) Error() string {
	return fmt.Sprintf("file: %s: line %d (offset %d): %s", e.Path, e.Line, e.Offset, e.Problem)
}

var errUTF8 = errors.New("not UTF-8")

// record is a piece of the file.
type record struct {
	from       int64 // end of the previous record; blank lines and a byte order mark may lie between
	start, end int64
	line       int    // of its first byte, from 1
	lines      int    // line breaks between from and end
	data       []byte // without the line break, or nil if it is too long; valid until the next call
	problem    string // why the line is not a record
}

const firstBuffer = 64 << 10

// reader cuts a file into records, from one buffer that grows up to the longest record.
type reader struct {
	file io.ReaderAt
	max  int      // bytes of a record
	find splitter // finds the end of the buffer's first record
	buf  []byte   // bytes that were read and not yet cut
	room []byte   // the memory of buf

	from  int64 // end of the last record
	lines int   // line breaks since then
	at    int64 // offset of the buffer
	line  int   // line of the buffer's first byte

	skipping bool // the rest of a record that is too long, which began at:
	start    int64
	first    int
}

func newReader(file io.ReaderAt, longest int, find splitter) *reader {
	return &reader{file: file, max: longest, find: find, line: 1}
}

// seek continues after a stretch of the file that begins at the end of the last record.
func (r *reader) seek(end int64, lines int) {
	r.line += lines - r.lines
	r.from, r.at, r.lines, r.buf = end, end, 0, nil
	r.find.reset()
}

// next cuts off the next record. With last, the end of the file also ends the last record. It returns false if there is no
// record yet.
func (r *reader) next(ctx context.Context, last bool) (record, bool, error) {
	for {
		if r.skipping {
			return r.skip(ctx, last)
		}
		n := r.find.end(r.buf)
		for n < 0 && len(r.buf) <= r.max+len("\r") {
			more, err := r.fill(ctx)
			if err != nil {
				return record{}, false, err
			}
			if more {
				n = r.find.end(r.buf)
				continue
			}
			if !last || len(r.buf) == 0 {
				return record{}, false, nil
			}
			n = len(r.buf)
			if r.find.open() {
				return r.unclosed(), true, nil
			}
			break
		}
		if r.at == 0 && bytes.HasPrefix(r.buf, bom) { // too short to be a record with a line break
			r.take(len(bom))
			continue
		}
		switch {
		case n < 0 && r.find.open() && bytes.IndexByte(r.buf, '\n') >= 0:
			return r.unclosed(), true, nil
		case n < 0:
			r.skipping, r.start, r.first = true, r.at, r.line
			continue
		}
		rec := record{start: r.at, line: r.line, data: bytes.TrimRight(r.buf[:n], "\r\n")}
		r.take(n)
		switch {
		case len(rec.data) > r.max:
			rec = r.tooLong(rec.start, rec.line)
		case len(bytes.TrimSpace(rec.data)) == 0 && !r.find.separated(rec.data):
			continue
		}
		return r.cut(rec), true, nil
	}
}

var bom = []byte("\xEF\xBB\xBF")

// unclosed gives up the first line of a record whose quote is never closed; the next line starts a new record.
func (r *reader) unclosed() record {
	n := cmp.Or(bytes.IndexByte(r.buf, '\n')+1, len(r.buf))
	rec := record{start: r.at, line: r.line, data: r.text(r.buf[:n]), problem: fmt.Sprintf("a quote is not closed within %d bytes", r.max)}
	r.take(n)
	return r.cut(rec)
}

// text returns a line without its line break, or nil if that is too long.
func (r *reader) text(line []byte) []byte {
	if line = bytes.TrimRight(line, "\r\n"); len(line) > r.max {
		return nil
	}
	return line
}

// skip reads over the rest of a line that is too long.
func (r *reader) skip(ctx context.Context, last bool) (record, bool, error) {
	for {
		n := bytes.IndexByte(r.buf, '\n') + 1
		if n > 0 {
			r.take(n)
			break
		}
		r.take(len(r.buf))
		more, err := r.fill(ctx)
		if err != nil || !more && !last {
			return record{}, false, err
		}
		if !more {
			break
		}
	}
	r.skipping = false
	return r.cut(r.tooLong(r.start, r.first)), true, nil
}

func (r *reader) tooLong(start int64, line int) record {
	return record{start: start, line: line, problem: fmt.Sprintf("longer than %d bytes", r.max)}
}

// take drops the first n bytes of the buffer.
func (r *reader) take(n int) {
	ends := bytes.Count(r.buf[:n], []byte{'\n'})
	r.line += ends
	r.lines += ends
	r.at += int64(n)
	r.buf = r.buf[n:]
	r.find.reset()
}

// cut completes a record that ends at the buffer's beginning.
func (r *reader) cut(rec record) record {
	rec.from, rec.end, rec.lines = r.from, r.at, r.lines
	r.from, r.lines = r.at, 0
	return rec
}

// fill reads more. It returns false at the end of the file.
func (r *reader) fill(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if len(r.buf) == cap(r.buf) {
		size := max(firstBuffer, len(r.room))
		if len(r.buf) > size/2 {
			size = min(2*size, max(firstBuffer, r.max)+firstBuffer)
		}
		if size > len(r.room) {
			r.room = make([]byte, size)
		}
		r.buf = r.room[:copy(r.room, r.buf)]
	}
	n, err := r.file.ReadAt(r.buf[len(r.buf):cap(r.buf)], r.at+int64(len(r.buf)))
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 || errors.Is(err, io.EOF) {
		return n > 0, nil
	}
	return false, err
}

// splitter finds the end of the first record in a buffer that grows.
type splitter interface {
	// end is the index after the record's line, or -1 if that has not been read yet.
	end(buf []byte) int
	// open reports whether the bytes so far end inside quotes.
	open() bool
	// separated reports whether a line has more than one column.
	separated(line []byte) bool
	// reset starts anew with another buffer.
	reset()
}

// byLine splits at line breaks.
type byLine struct{ seen int }

func (s *byLine) end(buf []byte) int {
	n := bytes.IndexByte(buf[s.seen:], '\n')
	if n < 0 {
		s.seen = len(buf)
		return -1
	}
	return s.seen + n + 1
}

func (s *byLine) open() bool            { return false }
func (s *byLine) separated([]byte) bool { return false }
func (s *byLine) reset()                { s.seen = 0 }

// byRow splits at line breaks outside quotes, as RFC 4180 says.
type byRow struct {
	comma byte
	seen  int
	state byte
}

// The states of byRow.
const (
	fieldStart byte = iota
	inField
	inQuotes
	afterQuote
)

func (s *byRow) end(buf []byte) int {
	for i := s.seen; i < len(buf); i++ {
		c := buf[i]
		switch {
		case s.state == inQuotes:
			if c == '"' {
				s.state = afterQuote
			}
		case c == '\n':
			return i + 1
		case c == '"' && s.state == fieldStart, c == '"' && s.state == afterQuote:
			s.state = inQuotes
		case c == s.comma:
			s.state = fieldStart
		default:
			s.state = inField
		}
	}
	s.seen = len(buf)
	return -1
}

func (s *byRow) open() bool                 { return s.state == inQuotes }
func (s *byRow) separated(line []byte) bool { return bytes.IndexByte(line, s.comma) >= 0 }
func (s *byRow) reset()                     { s.seen, s.state = 0, fieldStart }
