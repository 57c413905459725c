package file

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/tenetdev/tenet/pipeline"
)

func (l lines) encode(t *pipeline.Transaction) ([]byte, error) {
	if l.envelope {
		return seal(t)
	}
	payload := t.Payload()
	if err := check(payload); err != nil {
		return nil, fmt.Errorf("the payload is not JSON: %w", err)
	}
	if bytes.IndexByte(payload, '\n') < 0 && bytes.IndexByte(payload, '\r') < 0 {
		return payload, nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, payload); err != nil {
		return nil, err
	}
	return line.Bytes(), nil
}

// table is CSV.
type table struct {
	comma byte

	mu    sync.Mutex
	names []string // of the columns; the first payload sets them unless they are set before
}

// columns returns the names of the columns, and sets them to these if they were not set.
func (c *table) columns(names []string) (_ []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names, err = header(names)
	}
	return c.names, err
}

func (c *table) encode(t *pipeline.Transaction) ([]byte, error) {
	if err := check(t.Payload()); err != nil {
		return nil, fmt.Errorf("the payload is not JSON: %w", err)
	}
	names, values, err := members(t.Payload())
	if err != nil {
		return nil, err
	}
	columns, err := c.columns(names)
	if err != nil {
		return nil, err
	}
	row := make([]string, len(columns))
	for i, name := range names {
		at := slices.Index(columns, name)
		if at < 0 {
			return nil, fmt.Errorf("no column for the member %q", name)
		}
		row[at] = values[i]
	}
	return bytes.TrimSuffix(c.row(row), []byte{'\n'}), nil
}

func (c *table) head() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		return nil
	}
	return c.row(c.names)
}

func (c *table) row(fields []string) []byte {
	var line bytes.Buffer
	if len(fields) == 1 && fields[0] == "" {
		return []byte("\"\"\n") // an empty line is not a row
	}
	w := csv.NewWriter(&line)
	w.Comma = rune(c.comma)
	_ = w.Write(fields) // a buffer never fails
	w.Flush()
	return line.Bytes()
}

// resume reads the whole file, since a line break may be inside quotes.
func (c *table) resume(file *os.File, all bool) (int64, error) {
	r := newReader(file, 1<<30, &byRow{comma: c.comma})
	for first := true; ; first = false {
		rec, ok, err := r.next(context.Background(), all)
		if err != nil {
			return 0, err
		}
		if !ok && first { // blank: the header is still to be written
			return 0, file.Truncate(0)
		}
		if !ok && all {
			info, err := file.Stat()
			return sizeOf(info), err
		}
		if !ok {
			return r.from, nil
		}
		if rec.problem != "" { // what follows would be a part of the record
			return 0, fmt.Errorf("line %d: %s; complete the row, or cut it off", rec.line, rec.problem)
		}
		if !first {
			continue
		}
		fields, err := (&rows{comma: c.comma}).fields(rec.data)
		if err != nil {
			return 0, fmt.Errorf("header: %w", err)
		}
		if c.names != nil && !slices.Equal(c.names, fields) {
			return 0, fmt.Errorf("the file has the columns %q, but the sink has %q", fields, c.names)
		}
		c.names = slices.Clone(fields)
	}
}

// members are the names and values of an object, in their order. The payload is valid JSON.
func members(payload []byte) (names, values []string, err error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, nil, errors.New("the payload is not a JSON object; a row needs one")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, nil, err
		}
		text := string(raw)
		switch raw[0] {
		case '"':
			err = json.Unmarshal(raw, &text)
		case 'n':
			text = ""
		}
		if err != nil {
			return nil, nil, err
		}
		names, values = append(names, name.(string)), append(values, text)
	}
	if len(names) == 0 {
		return nil, nil, errors.New("the payload is an empty object; a row needs at least one member")
	}
	return names, values, nil
}
