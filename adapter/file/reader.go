package file

import (
	"bytes"
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
	from       int64 // where the record before it ended; blank lines and a byte order mark lie between
	start, end int64
	line       int    // of its first byte, from 1
	lines      int    // ends of lines from from to end
	data       []byte // without the end of the line; valid until the next call
	problem    string // why it is none
}

const firstBuffer = 64 << 10

// reader cuts a file into records, from one buffer that grows up to the longest record.
type reader struct {
	file io.ReaderAt
	max  int      // bytes of a record
	find splitter // where the first record of the buffer ends
	buf  []byte   // what has been read and not been cut
	room []byte   // that buf lies in

	from  int64 // where the last record ended
	lines int   // ends of lines since then
	at    int64 // of the buffer
	line  int   // of the buffer

	skipping bool // the rest of a record that is too long, which began at:
	start    int64
	first    int
}

func newReader(file io.ReaderAt, longest int, find splitter) *reader {
	return &reader{file: file, max: longest, find: find, line: 1}
}

// seek goes on behind a stretch of the file that begins where the last record ended.
func (r *reader) seek(end int64, lines int) {
	r.line += lines - r.lines
	r.from, r.at, r.lines, r.buf = end, end, 0, nil
	r.find.reset()
}

// next cuts the next record off. With last, an end of the file ends its last record too. false means that there is none for
// now.
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
		if r.at == 0 && bytes.HasPrefix(r.buf, bom) { // it is too short to be a record with a line's end
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
		case len(bytes.TrimSpace(rec.data)) == 0:
			continue
		}
		return r.cut(rec), true, nil
	}
}

var bom = []byte("\xEF\xBB\xBF")

// unclosed gives the first line of a record up whose quote is never closed; the next one begins a record again.
func (r *reader) unclosed() record {
	n := bytes.IndexByte(r.buf, '\n') + 1
	if n == 0 {
		n = len(r.buf)
	}
	rec := record{start: r.at, line: r.line, problem: fmt.Sprintf("a quote is not closed within %d bytes", r.max)}
	r.take(n)
	return r.cut(rec)
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

// fill reads on. It is false at the end of the file.
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
	// end is the index after the record's line, or -1 where that has not been read yet.
	end(buf []byte) int
	// open reports whether what was seen so far ends inside of quotes.
	open() bool
	// reset starts with another buffer.
	reset()
}

// byLine splits at the ends of lines.
type byLine struct{ seen int }

func (s *byLine) end(buf []byte) int {
	n := bytes.IndexByte(buf[s.seen:], '\n')
	if n < 0 {
		s.seen = len(buf)
		return -1
	}
	return s.seen + n + 1
}

func (s *byLine) open() bool { return false }
func (s *byLine) reset()     { s.seen = 0 }

// byRow splits at the ends of lines outside of quotes, as RFC 4180 has it.
type byRow struct {
	comma byte
	seen  int
	state byte
}

// Where byRow stands.
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

func (s *byRow) open() bool { return s.state == inQuotes }
func (s *byRow) reset()     { s.seen, s.state = 0, fieldStart }
