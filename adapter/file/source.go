package file

import (
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

// SourceOptions change a source. The zero value is ready.
type SourceOptions struct {
	// Format is by default that of the path's ending: .jsonl, .ndjson and .json, or .csv.
	Format Format
	// Follow waits for more at the end of the file, instead of coming to an end. A line counts when its end is there.
	Follow bool
	// Offsets is the file of what has been acknowledged, default the path with ".offset". Two consumers that are each to get
	// everything have a file each.
	Offsets string
	// Forget keeps no offsets: every source begins at the beginning.
	Forget bool
	// MaxRecord bounds a line or row, in bytes without its end. Default 1 MiB.
	MaxRecord int
	// MaxPending bounds how many transactions may be without an acknowledgement, those given back included, before Fetch
	// returns [ErrPending]. Default 100,000. Each costs about 100 bytes.
	MaxPending int
	// Poison takes the lines that are no records, as transactions with [MetaProblem] and the metadata of dead letters. What
	// it has taken counts as acknowledged; what it cannot take is tried again with the next fetch. Nil hands them to the task.
	Poison pipeline.Sink
	// Envelope says that lines are what a sink with that option has written: dead letters, with their metadata and attempts.
	Envelope bool
	// Comma separates the columns of CSV. Default ','.
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

// ErrPending says that too many transactions wait for an acknowledgement: those that were given back fill the source up.
var ErrPending = errors.New("file: too many transactions are not acknowledged; handle exceptions, set a dead-letter sink, or raise MaxPending")

// Source hands out the lines of a file, in their order; those given back come again after their delay, and as soon as they
// can. One goroutine may call Fetch at a time, and any number the other methods meanwhile.
//
// Delivery.Count begins at 1 with every source: how often a transaction was delivered before a restart is not kept.
type Source struct {
	path    string
	o       SourceOptions
	file    *os.File
	offsets *offsets
	ledger  ledger

	// Of Fetch alone.
	reader  *reader
	rows    *rows
	names   []string // of the columns
	skips   []span   // what has been acknowledged and has not been passed yet
	block   []byte   // that payloads are cut from
	entries []entry  // that are not used yet
	ended   bool     // the last look at the file found nothing
}

// OpenSource opens a file as a source. Where its offsets belong to other content, or a source has them open, it returns an error
// that says so; see [ErrLocked].
func OpenSource(path string, o SourceOptions) (*Source, error) {
	if path == "" {
		return nil, errors.New("file: OpenSource: the path is empty")
	}
	format, err := FormatOf(path, o.Format)
	if err != nil {
		return nil, err
	}
	o.Format = format
	if o.MaxRecord <= 0 {
		o.MaxRecord = DefaultMaxRecord
	}
	if o.MaxPending <= 0 {
		o.MaxPending = DefaultMaxPending
	}
	if o.Offsets == "" {
		o.Offsets = path + ".offset"
	}
	if o.Comma == 0 {
		o.Comma = ','
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Envelope && format != JSONL {
		return nil, fmt.Errorf("file: %s: envelopes are lines of JSONL", path)
	}
	file, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	s := &Source{path: path, o: o, file: file, ledger: newLedger(o.MaxPending)}
	if !o.Forget {
		if s.offsets, err = openOffsets(o.Offsets, file); err != nil {
			file.Close()
			return nil, err
		}
		s.skips = append(s.skips, s.offsets.done...)
	}
	s.reader = newReader(file, o.MaxRecord, &byLine{})
	if format == CSV {
		s.reader.find, s.rows = &byRow{comma: o.Comma}, &rows{comma: o.Comma}
	}
	return s, nil
}

// FormatOf is the format of a file: the one that is given, or else that of the path's ending. An unknown one is an error.
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

// take hands out what is due again, and what comes next in the file.
func (s *Source) take(ctx context.Context, most int) ([]pipeline.Delivery, error) {
	var got []pipeline.Delivery
	var settled []span // lines that the poison sink has taken
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

// record reads an entry's record again or, where that is nil, the next one of the file; false where there is none for now.
func (s *Source) record(ctx context.Context, e *entry) (record, bool, error) {
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

// enter makes an entry of a record.
func (s *Source) enter(r *record) *entry {
	if len(s.entries) == 0 {
		s.entries = make([]entry, entryBlock)
	}
	e := &s.entries[0]
	s.entries = s.entries[1:]
	*e = entry{source: s, from: r.from, start: r.start, end: r.end, line: r.line, lines: r.lines, count: 1}
	s.ledger.enter()
	return e
}

// shrunk notices that a file that is followed was cut off.
func (s *Source) shrunk() error {
	info, err := s.file.Stat()
	if err == nil && info.Size() < s.reader.at {
		err = fmt.Errorf("it has shrunk to %d bytes where %d were read; a file that is followed must only grow", info.Size(), s.reader.at)
	}
	if err != nil {
		return fmt.Errorf("file: %s: %w", s.path, err)
	}
	return nil
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
		*s.reader = *newReader(s.file, s.o.MaxRecord, s.reader.find) // the next fetch says so again
		s.reader.find.reset()
		return false, classify.Permanent(&LineError{s.path, rec.line, rec.start, "header: " + problem.Error()})
	}
	return true, nil
}

func (s *Source) reread(e *entry) (record, bool, error) {
	rec := record{from: e.from, start: e.start, end: e.end, line: e.line, lines: e.lines}
	if n := e.end - e.start; n > int64(s.o.MaxRecord)+2 {
		rec.problem = s.reader.tooLong(e.start, e.line).problem
	} else {
		rec.data = make([]byte, n)
		if _, err := s.file.ReadAt(rec.data, e.start); err != nil {
			return rec, false, fmt.Errorf("file: %s: line %d: %w", s.path, e.line, err)
		}
	}
	for len(rec.data) > 0 && (rec.data[len(rec.data)-1] == '\n' || rec.data[len(rec.data)-1] == '\r') {
		rec.data = rec.data[:len(rec.data)-1]
	}
	return rec, true, nil
}

// transaction makes what is handed out of a record, also where that is none.
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

// row makes an object of a row.
func (s *Source) row(raw []byte) ([]byte, error) {
	fields, err := s.rows.fields(raw)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(s.names) {
		return nil, fmt.Errorf("it has %d columns, and the header %d", len(fields), len(s.names))
	}
	return object(nil, s.names, fields), nil
}

// keep copies a payload out of the reader's buffer, into blocks that many share.
func (s *Source) keep(data []byte) []byte {
	if cap(s.block)-len(s.block) < len(data) {
		s.block = make([]byte, 0, max(blockSize, len(data)))
	}
	from := len(s.block)
	s.block = append(s.block, data...)
	return s.block[from:len(s.block):len(s.block)]
}

// Ack implements pipeline.Acker. It returns when what was done is safe on the disk.
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

// Close closes the file. What has not been acknowledged comes again from the next source.
func (s *Source) Close() error {
	return errors.Join(s.offsets.close(), s.file.Close())
}
