package pgpipe

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/pipeline"
)

// Sink is a pipeline.Sink that adds a row for each transaction, unless there is one with its ID. Values that the server refuses
// (the wrong type, a violated constraint) are business errors. It is safe for concurrent use, and also a pipeline.Checker.
//
// A deleted row of a queue no longer identifies duplicates: a transaction that is dispatched again after that is a new row.
type Sink struct {
	*table
	insert string
	queue  groupcommit.Queue[*dispatch]
}

// dispatch is a transaction that is waiting to be inserted.
type dispatch struct {
	t    *pipeline.Transaction
	done chan error // buffered, because the caller may have gone
}

// size is a row, and one more for every 8 KiB of payload: at most 4 MiB are inserted by one statement, unless a single payload is larger.
func (d *dispatch) size() int { return 1 + len(d.t.Payload())>>13 }

const (
	maxRows      = 500 // of one statement
	writeTimeout = 30 * time.Second
)

var errClosed = errors.New("postgres: dispatch: the sink is closed")

// OpenSink connects to the server of a URL without Options in it and checks the table. Close it after the engine's Run.
func OpenSink(ctx context.Context, server string, o Options) (*Sink, error) {
	t, err := open(ctx, server, o)
	if err != nil {
		return nil, err
	}
	if err := t.needsBody(unique, "have a unique index of its own"); err != nil {
		t.pool.Close()
		return nil, err
	}
	s := &Sink{table: t}
	s.queue.Limit, s.queue.Size, s.queue.Commit = maxRows, (*dispatch).size, s.write
	s.prepare()
	return s, nil
}

// prepare builds the statement. The values are five arrays, one for each possible column, even if the table does not have it.
func (s *Sink) prepare() {
	columns, values := []string{quote(s.o.ID)}, []string{"u.id::" + s.columns[s.o.ID].typ}
	add := func(name, value string) {
		if name == "" {
			return
		}
		typ := s.columns[name].typ
		if value == "u.payload" && typ != "bytea" {
			value = "convert_from(u.payload, 'UTF8')"
		}
		columns, values = append(columns, quote(name)), append(values, value+"::"+typ)
	}
	add(s.o.Payload, "u.payload")
	add(s.o.Metadata, "u.metadata")
	add(s.o.Correlation, "u.correlation")
	add(s.o.Parent, "u.parent")
	s.insert = "INSERT INTO " + s.name + " (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", ") +
		" FROM unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS u(id, payload, metadata, correlation, parent, place)" +
		" ORDER BY u.place ON CONFLICT (" + quote(s.o.ID) + ") DO NOTHING"
}

// Dispatch implements pipeline.Sink. It returns when the row is committed, or existed before. Transactions that are dispatched
// while a statement runs are written by the next one. If ctx ends first, the row may still be written.
func (s *Sink) Dispatch(ctx context.Context, t *pipeline.Transaction) error {
	if t == nil {
		return errors.New("postgres: Dispatch: the transaction is nil")
	}
	if err := ctx.Err(); err != nil {
		return kind.Wrap("dispatch", err)
	}
	d := &dispatch{t, make(chan error, 1)}
	if !s.queue.Add(d) {
		return errClosed
	}
	select {
	case err := <-d.done:
		return kind.Wrap("dispatch", markRefused(err))
	case <-ctx.Done():
		return kind.Wrap("dispatch", context.Cause(ctx))
	}
}

// write inserts a batch.
func (s *Sink) write(batch []*dispatch) {
	err := s.store(batch)
	alone := err != nil && !transient(err) && len(batch) > 1 // the server may have refused only one of them
	for _, d := range batch {
		if alone {
			err = s.store([]*dispatch{d})
		}
		d.done <- err
	}
}

func (s *Sink) store(batch []*dispatch) error {
	n := len(batch)
	ids, payloads := make([]string, n), make([][]byte, n)
	metadata, correlation, parent := make([]string, n), make([]string, n), make([]string, n)
	for i, d := range batch {
		ids[i], payloads[i] = d.t.ID(), d.t.Payload()
		if payloads[i] == nil {
			payloads[i] = []byte{} // nil would be NULL
		}
		metadata[i], correlation[i], parent[i] = metadataText(d.t), d.t.Correlation(), d.t.Parent()
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, s.insert, ids, payloads, metadata, correlation, parent)
	return err
}

// metadataText writes metadata as JSON. NUL characters, which PostgreSQL cannot store and error messages may hold, are
// replaced.
func metadataText(t *pipeline.Transaction) string {
	m := t.AllMetadata()
	clean := make(map[string]string, len(m))
	for name, value := range m {
		clean[strings.ReplaceAll(name, "\x00", "�")] = strings.ReplaceAll(value, "\x00", "�")
	}
	text, _ := json.Marshal(clean) // strings cannot fail
	return string(text)
}

// Close waits for rows that are being written and closes all connections.
func (s *Sink) Close() error {
	s.queue.Close()
	s.pool.Close()
	return nil
}
