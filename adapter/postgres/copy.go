package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
)

// copySQL reads the rows of three tables from one stream. The server runs the text as one transaction, so all default times
// are equal. It fails with a division by zero where jobs have limits: their jobs must not be ready without a place.
const copySQL = `
COPY {{schema}}.job (id, timeout, max_attempts, type, queue, priority, payload, meta) FROM STDIN (FORMAT binary);
COPY {{schema}}.ready (id, priority, queue, type) FROM STDIN (FORMAT binary);
COPY {{schema}}.total_change (queue, ready, enqueued) FROM STDIN (FORMAT binary);
SELECT 1 / (NOT EXISTS (SELECT FROM {{schema}}.bound))::integer`

// plain reports whether entries can be stored by plainSQL or copySQL: there is nothing to look up and nothing to compare with the server's clock.
func plain(entries []entry) bool {
	return !slices.ContainsFunc(entries, func(e entry) bool { return e.UniqueKey != "" || !e.RunAt.IsZero() || e.WaitsFor != "" })
}

// copy stores plain entries in one transaction and one round trip, with two thirds of the server's work for the same rows in
// arrays.
func (j *Jobs) copy(ctx context.Context, entries []entry) error {
	err := j.db.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		conn := c.Conn().PgConn()
		_, err := conn.CopyFrom(ctx, newCopyStream(entries, conn.Conn()), j.db.hot(copySQL))
		return err
	})
	return j.db.wrap("enqueue", err)
}

// copyStream is the data of copySQL. pgx ends the data of the last table only; the stream itself writes the ends of the others
// to the connection between two reads, when pgx is between two messages.
type copyStream struct {
	conn   net.Conn
	tables []copyTable // that are left
	next   int         // row of the first of them
	buffer []byte
	unread []byte // of the buffer
}

// copyTable is the data of one table.
type copyTable struct {
	rows   int
	append func(b []byte, row int) []byte
}

func newCopyStream(entries []entry, conn net.Conn) *copyStream {
	counts := map[string]uint64{}
	for i := range entries {
		counts[entries[i].Queue]++
	}
	queues := slices.Sorted(maps.Keys(counts))
	return &copyStream{conn: conn, tables: []copyTable{
		{len(entries), func(b []byte, row int) []byte { return appendJob(b, &entries[row]) }},
		{len(entries), func(b []byte, row int) []byte { return appendReady(b, &entries[row]) }},
		{len(queues), func(b []byte, row int) []byte { return appendCount(b, queues[row], counts[queues[row]]) }},
	}}
}

var (
	// copyHeader starts the data of a table: signature, no flags, no extension.
	copyHeader = []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	copyEnd    = []byte{0xff, 0xff}
	// copyDone is the protocol's message for the end of a table's data.
	copyDone = []byte{'c', 0, 0, 0, 4}
)

// Read implements io.Reader.
func (s *copyStream) Read(p []byte) (int, error) {
	if len(s.unread) == 0 {
		if err := s.fill(len(p)); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// fill writes the next rows into the buffer, about size bytes.
func (s *copyStream) fill(size int) error {
	s.buffer = s.buffer[:0]
	if s.next > s.tables[0].rows { // the table's end has been read
		if len(s.tables) == 1 {
			return io.EOF
		}
		if _, err := s.conn.Write(copyDone); err != nil {
			return err
		}
		s.tables, s.next = s.tables[1:], 0
	}
	if s.next == 0 {
		s.buffer = append(s.buffer, copyHeader...)
	}
	table := s.tables[0]
	for ; s.next < table.rows && len(s.buffer) < size; s.next++ {
		s.buffer = table.append(s.buffer, s.next)
	}
	if s.next == table.rows && len(s.buffer) < size {
		s.buffer = append(s.buffer, copyEnd...)
		s.next++
	}
	s.unread = s.buffer
	return nil
}

func appendJob(b []byte, e *entry) []byte {
	b = binary.BigEndian.AppendUint16(b, 8)
	b = appendField(b, e.id.Bytes[:])
	b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), uint64(e.Timeout))
	b = binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 4), uint32(e.MaxAttempts))
	b = appendField(b, e.Type)
	b = appendField(b, e.Queue)
	b = binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(e.Priority))
	if e.Payload == nil {
		b = append(b, null...)
	} else {
		b = appendField(b, e.Payload)
	}
	if !e.meta.Valid {
		return append(b, null...)
	}
	return appendField(b, e.meta.String)
}

func appendReady(b []byte, e *entry) []byte {
	b = binary.BigEndian.AppendUint16(b, 4)
	b = appendField(b, e.id.Bytes[:])
	b = binary.BigEndian.AppendUint16(append(b, 0, 0, 0, 2), uint16(e.Priority))
	b = appendField(b, e.Queue)
	return appendField(b, e.Type)
}

func appendCount(b []byte, queue string, ready uint64) []byte {
	b = binary.BigEndian.AppendUint16(b, 3)
	b = appendField(b, queue)
	b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), ready)
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 8), ready) // all of them are enqueued now
}

// null is the length of a field that is NULL.
var null = []byte{0xff, 0xff, 0xff, 0xff}

// appendField appends a value with its length.
func appendField[T ~string | ~[]byte](b []byte, value T) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}
