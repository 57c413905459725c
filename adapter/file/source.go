package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/pipeline"
)

// SourceOptions configure a source. The zero value works.
type SourceOptions struct {
	// Format defaults to the format of the path's extension: .jsonl, .ndjson and .json, or .csv.
	Format Format
	// Follow waits for more at the end of the file instead of ending there. A line is read when it is complete.
	Follow bool
	// Offsets is the file that stores the acknowledgements, default the path with ".offset". Give each of two consumers that
	// both read everything a file of its own.
	Offsets string
	// Forget stores no offsets: every source starts at the beginning.
	Forget bool
	// MaxRecord bounds a line or row, in bytes without its line break. Default 1 MiB.
	MaxRecord int
	// MaxPending bounds the transactions without an acknowledgement, including those given back; above it, Fetch returns
	// [ErrPending]. Default 100,000. Each costs about 100 bytes.
	MaxPending int
	// Poison receives the lines that are not records, as transactions with [MetaProblem] and the metadata of dead letters. A
	// dispatched line counts as acknowledged; after an error, the next fetch tries again. Nil passes the lines to the task.
	Poison pipeline.Sink
	// Envelope reads lines that a sink wrote with the same option: dead letters, with their metadata and attempts.
	Envelope bool
	// Comma separates the columns of CSV: an ASCII character other than a quote or line break. Default ','.
	Comma byte
	// Log defaults to slog.Default(). Payloads are never logged.
	Log *slog.Logger
}

// Defaults and limits.
const (
	DefaultMaxRecord  = 1 << 20
	DefaultMaxPending = 100_000

	pollEvery  = 100 * time.Millisecond // while following
	mostBytes  = 8 << 20                // of one fetch
	blockSize  = 64 << 10               // of payloads
	entryBlock = 32
)

// ErrPending is returned by Fetch while MaxPending transactions, including those given back, are not acknowledged.
var ErrPending = errors.New("file: too many transactions are not acknowledged; handle exceptions, set a dead-letter sink, or raise MaxPending")

// Source delivers the lines of a file in order, and those given back again after their delay. One goroutine at a time may
// call Fetch; the other methods are safe for concurrent use.
//
// Delivery.Count starts at 1 in every source: deliveries before a restart are not counted.
type Source struct {
	path    string
	o       SourceOptions
	file    *os.File
	offsets *offsets
	ledger  ledger

	// Used by Fetch only.
	reader  *reader
	rows    *rows
	names   []string // of the columns
	skips   []span   // acknowledged stretches ahead of the reader
	block   []byte   // payloads are cut from it
	entries []entry  // allocated and unused
	ended   bool     // the last read found nothing
	broken  error    // the file has shrunk
}

// OpenSource opens a file as a source. It returns an error if the offsets belong to other content or to another format or comma,
// and one that wraps [ErrLocked] if another source has them open.
func OpenSource(path string, o SourceOptions) (*Source, error) {
	if path == "" {
		return nil, errors.New("file: OpenSource: the path is empty")
	}
	format, comma, err := layout(path, o.Format, o.Comma, o.Envelope)
	if err != nil {
		return nil, err
	}
	o.Format, o.Comma = format, comma
	o.MaxRecord = cmp.Or(max(o.MaxRecord, 0), DefaultMaxRecord)
	o.MaxPending = cmp.Or(max(o.MaxPending, 0), DefaultMaxPending)
	o.Offsets = cmp.Or(o.Offsets, path+".offset")
	o.Log = cmp.Or(o.Log, slog.Default())
	file, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	s := &Source{path: path, o: o, file: file, ledger: newLedger(o.MaxPending)}
	s.reader = newReader(file, o.MaxRecord, &byLine{})
	recordLayout := string(format)
	if format == CSV {
		s.reader.find, s.rows = &byRow{comma: o.Comma}, &rows{comma: o.Comma}
		recordLayout += string(o.Comma)
	}
	if !o.Forget {
		if s.offsets, err = openOffsets(o.Offsets, file, recordLayout); err != nil {
			file.Close()
			return nil, err
		}
		s.skips = append(s.skips, s.offsets.done...)
	}
	return s, nil
}

// FormatOf returns the format of a file: the given one or, if that is empty, the one of the path's extension. It returns an
// error for an unknown format.
func FormatOf(path string, given Format) (Format, error) {
	switch ending := strings.ToLower(filepath.Ext(path)); {
	case given == JSONL, given == CSV:
		return given, nil
	case given != "":
		return "", fmt.Errorf("file: format %q is not known; use %s or %s", given, JSONL, CSV)
	case ending == ".jsonl", ending == ".ndjson", ending == ".json":
		return JSONL, nil
	case ending == ".csv":
		return CSV, nil
	}
	return "", fmt.Errorf("file: %s: the file name extension does not name a known format; set the format to %s or %s", path, JSONL, CSV)
}

// Fetch implements pipeline.Source. Without Follow it returns pipeline.ErrEnd once every record has been acknowledged; until
// then it waits, as it does for new records.
func (s *Source) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	deadline := time.NewTimer(r.Wait)
	defer deadline.Stop()
	for waited := r.Wait <= 0; ; {
		due, changed := s.ledger.watch()
		got, err := s.take(ctx, r.Max)
		if len(got) > 0 || err != nil {
			return got, err
		}
		pending, full := s.ledger.pending()
		switch {
		case s.ended && !s.o.Follow && pending == 0:
			return nil, pipeline.ErrEnd
		case waited && full:
			return nil, ErrPending
		case waited:
			return nil, nil
		}
		poll := time.NewTimer(min(pollEvery, due))
		if !s.o.Follow || full {
			poll.Reset(due)
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-deadline.C:
			waited = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		poll.Stop()
		if err != nil {
			return nil, err
		}
	}
}

// take returns the transactions that are due again, then the next ones in the file.
func (s *Source) take(ctx context.Context, most int) ([]pipeline.Delivery, error) {
	var got []pipeline.Delivery
	var settled []span // lines that were dispatched to the poison sink
	bytes := 0
	add := func(e *entry, t *pipeline.Transaction, count int) {
		if got == nil {
			got = make([]pipeline.Delivery, 0, min(most, 1024))
		}
		bytes += len(t.Payload())
		got = append(got, pipeline.Delivery{Transaction: t, Token: e, Count: count})
	}
	err := func() error {
		for len(got) < most && bytes < mostBytes {
			e, count := s.ledger.again()
			rec, ok, err := s.record(ctx, e)
			if err != nil || !ok {
				s.ledger.undo(e)
				return err
			}
			t, problem := s.transaction(&rec)
			if e == nil {
				e, count = s.enter(&rec), 1
				if problem != nil {
					s.o.Log.Warn("file: a line is not a record", "path", s.path, "line", rec.line, "offset", rec.start, "problem", problem.Problem)
				}
			}
			if problem == nil || s.o.Poison == nil {
				add(e, t, count)
				continue
			}
			if err := s.o.Poison.Dispatch(ctx, t); err != nil {
				s.ledger.undo(e)
				return fmt.Errorf("file: poison sink: %w", err)
			}
			s.ledger.settle(e)
			settled = append(settled, span{e.from, e.end, e.lines})
		}
		return nil
	}()
	return got, errors.Join(err, s.offsets.add(settled))
}

// record reads an entry's record again or, if the entry is nil, the next record of the file. It returns false if there is
// none yet.
func (s *Source) record(ctx context.Context, e *entry) (record, bool, error) {
	if s.broken != nil {
		return record{}, false, s.broken
	}
	if e != nil {
		return s.reread(e)
	}
	if _, full := s.ledger.pending(); full {
		return record{}, false, nil
	}
	rec, ok, err := s.next(ctx)
	s.ended = !ok && err == nil
	return rec, ok, err
}

func (s *Source) next(ctx context.Context) (record, bool, error) {
	if s.o.Format == CSV && s.names == nil {
		if ok, err := s.header(ctx); !ok || err != nil {
			return record{}, false, err
		}
	}
	for len(s.skips) > 0 && s.skips[0].from == s.reader.from {
		s.reader.seek(s.skips[0].end, s.skips[0].lines)
		s.skips = s.skips[1:]
	}
	rec, ok, err := s.reader.next(ctx, !s.o.Follow)
	if err != nil {
		return rec, false, fmt.Errorf("file: %s: %w", s.path, err)
	}
	if !ok {
		return rec, false, s.shrunk()
	}
	return rec, true, nil
}

// enter adds an entry for a record.
func (s *Source) enter(r *record) *entry {
	if len(s.entries) == 0 {
		s.entries = make([]entry, entryBlock)
	}
	e := &s.entries[0]
	s.entries = s.entries[1:]
	*e = entry{source: s, from: r.from, start: r.start, end: r.end, line: r.line, lines: r.lines, problem: r.problem, count: 1}
	s.ledger.enter()
	return e
}

// shrunk returns an error if a followed file was truncated. If the file grows again, what lies at the reader's place is not what
// follows the records that were read, so the error stays.
func (s *Source) shrunk() error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("file: %s: %w", s.path, err)
	}
	if read := s.reader.at + int64(len(s.reader.buf)); info.Size() < read {
		s.broken = fmt.Errorf("file: %s: it has shrunk to %d bytes after %d were read; a file that is followed must only grow",
			s.path, info.Size(), read)
	}
	return s.broken
}

// header reads the names of the columns.
func (s *Source) header(ctx context.Context) (bool, error) {
	rec, ok, err := s.reader.next(ctx, !s.o.Follow)
	if err != nil || !ok {
		return false, err
	}
	problem := errors.New(rec.problem)
	if rec.problem == "" {
		var fields []string
		if fields, problem = s.rows.fields(rec.data); problem == nil {
			s.names, problem = header(fields)
		}
	}
	if problem != nil {
		*s.reader = *newReader(s.file, s.o.MaxRecord, s.reader.find) // the next fetch returns the same error
		s.reader.find.reset()
		return false, classify.Permanent(&LineError{s.path, rec.line, rec.start, "header: " + problem.Error()})
	}
	return true, nil
}

func (s *Source) reread(e *entry) (record, bool, error) {
	rec := record{from: e.from, start: e.start, end: e.end, line: e.line, lines: e.lines, problem: e.problem}
	if e.problem != "" && e.end-e.start > int64(s.o.MaxRecord+len("\r\n")) {
		return rec, true, nil
	}
	data := make([]byte, e.end-e.start)
	if _, err := s.file.ReadAt(data, e.start); err != nil {
		return rec, false, fmt.Errorf("file: %s: line %d: %w", s.path, e.line, err)
	}
	rec.data = s.reader.text(data)
	return rec, true, nil
}

// transaction makes the transaction of a record, or of a line that is not a record.
func (s *Source) transaction(rec *record) (*pipeline.Transaction, *LineError) {
	id, payload := "", []byte(nil)
	var problem error
	switch {
	case rec.problem != "":
		problem = errors.New(rec.problem)
	case s.o.Envelope:
		t, err := open(rec.data)
		if err == nil {
			return t, nil
		}
		problem = err
	case s.rows != nil:
		payload, problem = s.row(rec.data)
		if problem == nil {
			id, _ = identify(payload) // it is JSON
		}
	default:
		payload = s.keep(rec.data)
		id, problem = identify(payload)
	}
	if problem == nil {
		if id == "" {
			id = place(s.path, rec.start)
		}
		return pipeline.NewTransaction(id, payload), nil
	}
	bad := &LineError{s.path, rec.line, rec.start, problem.Error()}
	return pipeline.NewTransaction(place(s.path, rec.start), s.keep(rec.data), pipeline.WithMetadata(map[string]string{
		MetaProblem: bad.Error(), MetaLine: strconv.Itoa(rec.line),
		pipeline.MetaError: bad.Error(), pipeline.MetaCategory: "business", pipeline.MetaStep: "fetch",
	})), bad
}

// row turns a row into a JSON object.
func (s *Source) row(raw []byte) ([]byte, error) {
	fields, err := s.rows.fields(raw)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(s.names) {
		return nil, fmt.Errorf("columns: the header has %d, this row has %d", len(s.names), len(fields))
	}
	return object(nil, s.names, fields), nil
}

// keep copies a payload out of the reader's buffer into a block that it shares with others.
func (s *Source) keep(data []byte) []byte {
	if cap(s.block)-len(s.block) < len(data) {
		s.block = make([]byte, 0, max(blockSize, len(data)))
	}
	from := len(s.block)
	s.block = append(s.block, data...)
	return s.block[from:len(s.block):len(s.block)]
}

// Ack implements pipeline.Acker. It returns when the acknowledgements are flushed to the disk.
func (s *Source) Ack(_ context.Context, done []pipeline.Delivery) []error {
	errs := make([]error, len(done))
	list := make([]span, 0, len(done))
	failed := false
	for i, d := range done {
		e, fresh, err := s.ledger.done(s, d)
		if errs[i] = err; err != nil {
			failed = true
			continue
		}
		if fresh {
			list = append(list, span{e.from, e.end, e.lines})
		}
	}
	if err := s.offsets.add(list); err != nil {
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
		return errs
	}
	if failed {
		return errs
	}
	return nil
}

// Nack implements pipeline.Nacker.
func (s *Source) Nack(_ context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	return s.ledger.back(s, d, delay)
}

// Check implements pipeline.Checker.
func (s *Source) Check(context.Context) error {
	if _, err := s.file.Stat(); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	return nil
}

// Close closes the file. The next source delivers again what was not acknowledged.
func (s *Source) Close() error {
	return errors.Join(s.offsets.close(), s.file.Close())
}
