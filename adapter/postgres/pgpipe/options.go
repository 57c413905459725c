package pgpipe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/internal/address"
)

// Defaults of Options.
const (
	DefaultLease = 30 * time.Second
	DefaultPoll  = 250 * time.Millisecond
)

const minLease = 100 * time.Millisecond

// Options name the table and its columns. Names may hold any character; they are quoted. Only Table is required.
type Options struct {
	// Table is the table's name, or its schema and name with a dot between them. Without a schema, the connection's
	// search_path applies.
	Table string
	// ID is the column of the transaction's ID, default "id". It may have any type; the ID is the value's text form. Queues and
	// sinks need a unique index on this column alone.
	ID string
	// Payload is the column of the payload, default "payload". The payload is the bytes of a bytea, or the text form of any
	// other type.
	Payload string
	// Metadata is a column of type json or jsonb that holds an object of strings. Default none: metadata is not kept.
	Metadata string
	// Correlation and Parent are the columns of the correlation ID and the parent ID. Default none.
	Correlation, Parent string

	// Available (timestamptz, default "available_at") is when a row of a queue may be claimed.
	Available string
	// Deliveries (an integer, default "deliveries") is how often a row of a queue has been claimed.
	Deliveries string
	// Done is a column of type timestamptz: the time at which a row of a queue was acknowledged, null before. Default none:
	// acknowledged rows are deleted.
	Done string
	// Lease is how long a claimed row, or the cursor of an outbox, is reserved for its consumer unless it is extended. Default
	// 30 s, at least 100 ms.
	Lease time.Duration
	// Poll is how often a waiting fetch queries an empty table. Default 250 ms.
	Poll time.Duration

	// Consumer names the reader of an outbox; its cursor is kept under that name.
	Consumer string
	// Seq (bigint, default "seq") orders rows that were committed together; TX (xid8, default "tx") is the ID of the
	// transaction that added a row.
	Seq, TX string
	// Cursors is the table of all cursors, which is created if it is missing. Default "tenet_cursors" in the schema of Table.
	Cursors string
}

// ParseURL parses a URL such as postgres://user:password@host/database?table=queue&lease=1m. It returns the Options in it, and
// the URL without them for the Open functions. The parameters have the names of the fields in lower case.
func ParseURL(text string) (server string, o Options, err error) {
	if err := address.Check(text); err != nil {
		return "", o, fmt.Errorf("postgres: %w", err)
	}
	server, query, _ := strings.Cut(text, "?")
	p, err := address.ReadParameters(query)
	if err != nil {
		return "", o, fmt.Errorf("postgres: %w", err)
	}
	for name, to := range map[string]*string{
		"table": &o.Table, "id": &o.ID, "payload": &o.Payload, "metadata": &o.Metadata, "correlation": &o.Correlation,
		"parent": &o.Parent, "available": &o.Available, "deliveries": &o.Deliveries, "done": &o.Done,
		"consumer": &o.Consumer, "seq": &o.Seq, "tx": &o.TX, "cursors": &o.Cursors,
	} {
		*to = p.Text(name)
	}
	p.Duration("lease", &o.Lease)
	p.Duration("poll", &o.Poll)
	rest, err := p.Rest() // of the driver
	if err != nil {
		return "", o, fmt.Errorf("postgres: %w", err)
	}
	if o.Table == "" {
		return "", o, errors.New("postgres: the table is missing; write postgres://host/database?table=NAME")
	}
	if len(rest) > 0 {
		server += "?" + rest.Encode()
	}
	if _, err := pgxpool.ParseConfig(server); err != nil {
		return "", o, fmt.Errorf("postgres: %w", err)
	}
	return server, o, nil
}

// withDefaults returns valid options with all defaults filled in.
func (o Options) withDefaults() (Options, error) {
	for to, value := range map[*string]string{
		&o.ID: "id", &o.Payload: "payload", &o.Available: "available_at", &o.Deliveries: "deliveries", &o.Seq: "seq", &o.TX: "tx",
	} {
		if *to == "" {
			*to = value
		}
	}
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	err := address.CheckNames("table", o.Table, "id", o.ID, "payload", o.Payload, "metadata", o.Metadata, "correlation", o.Correlation,
		"parent", o.Parent, "available", o.Available, "deliveries", o.Deliveries, "done", o.Done, "consumer", o.Consumer, "seq", o.Seq,
		"tx", o.TX, "cursors", o.Cursors)
	switch {
	case err != nil:
		return o, fmt.Errorf("postgres: %w", err)
	case o.Table == "":
		return o, errors.New("postgres: the table is missing; set Options.Table")
	case o.Lease < minLease:
		return o, fmt.Errorf("postgres: a lease of %v is too short; use %v or more", o.Lease, minLease)
	case o.Poll < 0:
		return o, fmt.Errorf("postgres: poll: %v is negative; use a duration above 0", o.Poll)
	}
	return o, nil
}
