package file

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tenetdev/tenet/pipeline"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	JSONL Format = "jsonl" // a JSON value in each line
	CSV   Format = "csv"   // RFC 4180, with a header
)

// Names of metadata of a transaction that was made from a bad line.
const (
	MetaProblem = "file_problem" // what is wrong with it, with path and line
	MetaLine    = "file_line"    // its number, from 1
)

// Problem returns why a transaction's line is not a record, or nil. The payload is the unchanged line, or empty if the line
// is too long.
func Problem(t *pipeline.Transaction) error {
	if text := t.Metadata(MetaProblem); text != "" {
		return errors.New(text)
	}
	return nil
}

// envelope is a whole transaction as a line.
type envelope struct {
	ID          string            `json:"id"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Binary      []byte            `json:"payload_base64,omitempty"` // a payload that is not JSON in one line
	Metadata    map[string]string `json:"metadata,omitempty"`
	Correlation string            `json:"correlation_id,omitempty"`
	Parent      string            `json:"parent_id,omitempty"`
	Attempts    int               `json:"attempts,omitempty"`
}

func open(line []byte) (*pipeline.Transaction, error) {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, fmt.Errorf("not an envelope: %w", err)
	}
	if e.ID == "" {
		return nil, errors.New("not an envelope: it has no id")
	}
	payload := []byte(e.Payload)
	if payload == nil {
		payload = e.Binary
	}
	return pipeline.NewTransaction(e.ID, payload, pipeline.WithMetadata(e.Metadata), pipeline.WithCorrelation(e.Correlation),
		pipeline.WithParent(e.Parent), pipeline.WithAttempts(e.Attempts)), nil
}

// seal returns the line of a transaction. JSON goes into it as it is, which no encoder does: whoever reads the line back gets the same bytes.
func seal(t *pipeline.Transaction) ([]byte, error) {
	e := envelope{
		ID: t.ID(), Metadata: t.AllMetadata(), Correlation: t.Correlation(), Parent: t.Parent(), Attempts: t.Attempts(),
	}
	payload := t.Payload()
	plain := check(payload) == nil && !bytes.ContainsAny(payload, "\r\n") && len(bytes.TrimSpace(payload)) == len(payload)
	if !plain {
		e.Binary = payload
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	sealed := bytes.TrimSuffix(line.Bytes(), []byte{'\n'})
	if plain {
		sealed = append(append(append(sealed[:len(sealed)-1], `,"payload":`...), payload...), '}')
	}
	return sealed, nil
}

// rows reads rows of CSV one by one.
type rows struct {
	comma  byte
	parser *csv.Reader
	source bytes.Reader
}

// fields splits a row into fields, which are valid until the next call.
func (r *rows) fields(row []byte) ([]string, error) {
	if !utf8.Valid(row) {
		return nil, errUTF8
	}
	if r.parser == nil {
		r.parser = csv.NewReader(&r.source)
		r.parser.Comma, r.parser.FieldsPerRecord, r.parser.ReuseRecord = rune(r.comma), -1, true
	}
	if bytes.Contains(row, []byte("\r\n")) { // the parser drops one carriage return before a line break
		row = bytes.ReplaceAll(row, []byte("\r\n"), []byte("\r\r\n"))
	}
	r.source.Reset(row)
	fields, err := r.parser.Read()
	if err != nil || r.source.Len() > 0 {
		r.parser = nil // it may hold a part of the row
	}
	var wrong *csv.ParseError
	switch {
	case errors.As(err, &wrong):
		return nil, fmt.Errorf("not CSV: %w", wrong.Err)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case err != nil:
		return nil, errors.New("not CSV: the row is empty")
	}
	return fields, nil
}

// layout checks options, and returns the format and the character between columns: the given one or, if that is 0, a comma.
func layout(path string, given Format, comma byte, envelope bool) (Format, byte, error) {
	format, err := FormatOf(path, given)
	switch {
	case err != nil:
		return "", 0, err
	case comma == 0:
		comma = ','
	case comma == '"', comma == '\r', comma == '\n', comma >= utf8.RuneSelf:
		return "", 0, fmt.Errorf("file: %s: the comma %q cannot separate columns; use an ASCII character, such as a semicolon", path, comma)
	}
	if envelope && format != JSONL {
		return "", 0, fmt.Errorf("file: %s: envelopes are lines of JSONL", path)
	}
	return format, comma, nil
}

// header checks the names of the columns.
func header(fields []string) ([]string, error) {
	for i, name := range fields {
		if name == "" || slices.Contains(fields[:i], name) {
			return nil, fmt.Errorf("column %d has the name %q, which is empty or a duplicate", i+1, name)
		}
	}
	return slices.Clone(fields), nil
}

// object appends a row as a JSON object.
func object(to []byte, names, fields []string) []byte {
	for i, name := range names {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		to = quote(append(to, separator), name)
		to = quote(append(to, ':'), fields[i])
	}
	return append(to, '}')
}

// quote appends a string as JSON.
func quote(to []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			raw, _ := json.Marshal(s) // never fails for a string
			return append(to, raw...)
		}
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// place is the ID of a record without one.
func place(path string, offset int64) string {
	id := make([]byte, 0, len(path)+20)
	id = append(append(id, path...), ':')
	return string(strconv.AppendInt(id, offset, 10))
}
