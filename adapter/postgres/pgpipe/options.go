package pgpipe

import (
	"errors"
	"fmt"
	"net/url"
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

// Options say which table and columns are meant. Every name may hold any character; it is quoted. Only Table is required.
type Options struct {
	// Table is the table's name, or its schema and name with a dot between them. Without a schema the connection's
	// search_path counts.
	Table string
	// ID is the column of the transaction's ID, default "id", of any type whose text form is the ID. Queues and sinks need
	// a unique index on it alone.
	ID string
	// Payload is the column of the payload, default "payload": bytea, or anything else by its text form.
	Payload string
	// Metadata is a column of type json or jsonb that holds an object of strings. Default none: metadata is not kept.
	Metadata string
	// Correlation and Parent are columns of these IDs. Default none.
	Correlation, Parent string

	// Available (timestamptz, default "available_at") is when a row of a queue may be claimed.
	Available string
	// Deliveries (an integer, default "deliveries") is how often a row of a queue was claimed.
	Deliveries string
	// Done is a column of type timestamptz that acknowledged rows of a queue get; null while they wait. Default none: they
	// are deleted.
	Done string
	// Lease is after which time a row that is not extended, or an outbox whose reader is gone, is free for others. Default
	// 30 s, at least 100 ms.
	Lease time.Duration
	// Poll is how often an empty table is asked again while a fetch waits. Default 250 ms.
	Poll time.Duration

	// Consumer names the reader of an outbox; its cursor is kept under that name.
	Consumer string
	// Seq (bigint, default "seq") orders the rows that were committed together; TX (xid8, default "tx") is the transaction
	// that added a row.
	Seq, TX string
	// Cursors is the table of all cursors, which is made where it is missing. Default "tenet_cursors" in the schema of Table.
	Cursors string
}

// ParseURL takes Options out of a URL such as postgres://user:password@host/database?table=queue&lease=1m. What it returns
// as server is the rest, for Open functions. The parameters are the names of the fields in lower case.
func ParseURL(text string) (server string, o Options, err error) {
	if err := address.Check(text); err != nil {
		return "", o, fmt.Errorf("postgres: %w", err)
	}
	server, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", o, fmt.Errorf("postgres: the URL's parameters cannot be read: %w", err)
	}
	for name, to := range map[string]*string{
		"table": &o.Table, "id": &o.ID, "payload": &o.Payload, "metadata": &o.Metadata, "correlation": &o.Correlation,
		"parent": &o.Parent, "available": &o.Available, "deliveries": &o.Deliveries, "done": &o.Done,
		"consumer": &o.Consumer, "seq": &o.Seq, "tx": &o.TX, "cursors": &o.Cursors,
	} {
		*to = values.Get(name)
		values.Del(name)
	}
	for name, to := range map[string]*time.Duration{"lease": &o.Lease, "poll": &o.Poll} {
		value := values.Get(name)
		values.Del(name)
		if value == "" {
			continue
		}
		if *to, err = time.ParseDuration(value); err != nil || *to <= 0 {
			return "", o, fmt.Errorf("postgres: %s=%s: write a duration above 0, such as 30s", name, value)
		}
	}
	if o.Table == "" {
		return "", o, errors.New("postgres: the table is missing; write postgres://host/database?table=NAME")
	}
	if len(values) > 0 {
		server += "?" + values.Encode()
	}
	if _, err := pgxpool.ParseConfig(server); err != nil {
		return "", o, fmt.Errorf("postgres: %w", err)
	}
	return server, o, nil
}

// withDefaults fills in what is missing.
func (o Options) withDefaults() (Options, error) {
	for to, value := range map[*string]string{
		&o.ID: "id", &o.Payload: "payload", &o.Available: "available_at", &o.Deliveries: "deliveries", &o.Seq: "seq", &o.TX: "tx",
	} {
		if *to == "" {
			*to = value
		}
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Poll == 0 {
		o.Poll = DefaultPoll
	}
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
