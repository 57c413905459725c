package pgpipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/pipeline"
)

// quote returns a name as a quoted identifier.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// quoteTable quotes "table" or "schema.table".
func quoteTable(name string) string {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return pgx.Identifier{schema, table}.Sanitize()
	}
	return quote(name)
}

// column describes a column as the server reports it.
type column struct {
	typ     string // as SQL
	notNull bool
	unique  bool // has a unique index on this column alone
	counted bool // its values come from a sequence
}

// table is the user's table.
type table struct {
	pool    *pgxpool.Pool
	o       Options
	schema  string // quoted
	name    string // with its schema, quoted
	columns map[string]column
}

// open connects and reads the table's description.
func open(ctx context.Context, server string, o Options) (*table, error) {
	if ctx == nil {
		return nil, errors.New("postgres: open: the context is nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	t := &table{pool: pool, o: o, columns: map[string]column{}}
	if err := t.describe(ctx); err != nil {
		pool.Close()
		return nil, kind.Wrap("table "+o.Table, err)
	}
	return t, nil
}

func (t *table) describe(ctx context.Context) error {
	// A unique index counts if it is valid, is not partial, and covers this column alone.
	const question = `SELECT quote_ident(n.nspname), quote_ident(n.nspname) || '.' || quote_ident(c.relname),
		a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
		EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
			AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
		a.attidentity <> '' OR EXISTS (SELECT FROM pg_attrdef d WHERE d.adrelid = c.oid AND d.adnum = a.attnum
			AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.oid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped`
	rows, _ := t.pool.Query(ctx, question, quoteTable(t.o.Table)) // whose error the rows have too
	var name string
	var c column
	_, err := pgx.ForEachRow(rows, []any{&t.schema, &t.name, &name, &c.typ, &c.notNull, &c.unique, &c.counted}, func() error {
		t.columns[name] = c
		return nil
	})
	return err
}

// needs checks a column; what names its use.
func (t *table) needs(what, name string, check check, must string) error {
	c, found := t.columns[name]
	if !found {
		return fmt.Errorf("postgres: table %s has no column %q for the %s; set the column's name with %s=", t.o.Table, name, what, what)
	}
	if problem := check(c); problem != "" {
		return fmt.Errorf("postgres: column %q of table %s, for the %s, must %s; %s", name, t.o.Table, what, must, problem)
	}
	return nil
}

// check returns what is wrong with a column, or "".
type check func(column) string

func anyType(column) string { return "" }

func unique(c column) string {
	if c.unique {
		return ""
	}
	return "it has none"
}

// numbered accepts columns whose values are unique: rows with the same number could be skipped.
func numbered(c column) string {
	if problem := ofType("bigint", "integer")(c); problem != "" || c.unique || c.counted {
		return problem
	}
	return "it has neither a unique index of its own nor a sequence"
}

func ofType(types ...string) check {
	return func(c column) string {
		if slices.Contains(types, c.typ) {
			return ""
		}
		return "it is " + c.typ
	}
}

func notNull(of check) check {
	return func(c column) string {
		if problem := of(c); problem != "" || c.notNull {
			return problem
		}
		return "it may be null"
	}
}

// needsBody checks the columns that all tables have.
func (t *table) needsBody(id check, must string) error {
	faults := []error{t.needs("id", t.o.ID, id, must), t.needs("payload", t.o.Payload, anyType, "")}
	if t.o.Metadata != "" {
		faults = append(faults, t.needs("metadata", t.o.Metadata, ofType("json", "jsonb"), "be json or jsonb"))
	}
	if t.o.Correlation != "" {
		faults = append(faults, t.needs("correlation", t.o.Correlation, anyType, ""))
	}
	if t.o.Parent != "" {
		faults = append(faults, t.needs("parent", t.o.Parent, anyType, ""))
	}
	return errors.Join(faults...)
}

// bodySQL returns the list of expressions from which a body is read, with the names in bodyNames.
func (t *table) bodySQL(alias string) string {
	text := func(name string) string {
		if name == "" {
			return "NULL::text"
		}
		return alias + "." + quote(name) + "::text"
	}
	payload := alias + "." + quote(t.o.Payload)
	if t.columns[t.o.Payload].typ != "bytea" {
		payload = "convert_to(" + payload + "::text, 'UTF8')"
	}
	return text(t.o.ID) + " AS b_id, " + payload + " AS b_payload, " + text(t.o.Metadata) + " AS b_metadata, " +
		text(t.o.Correlation) + " AS b_correlation, " + text(t.o.Parent) + " AS b_parent"
}

const bodyNames = "b_id, b_payload, b_metadata, b_correlation, b_parent"

// body holds the columns of a row that make a transaction.
type body struct {
	id                            string
	payload                       []byte
	metadata, correlation, parent *string
}

func (b *body) targets() []any {
	return []any{&b.id, &b.payload, &b.metadata, &b.correlation, &b.parent}
}

func (b *body) transaction() *pipeline.Transaction {
	var options []pipeline.TransactionOption
	if m := metadataOf(b.metadata); len(m) > 0 {
		options = append(options, pipeline.WithMetadata(m))
	}
	if b.correlation != nil {
		options = append(options, pipeline.WithCorrelation(*b.correlation))
	}
	if b.parent != nil {
		options = append(options, pipeline.WithParent(*b.parent))
	}
	return pipeline.NewTransaction(b.id, b.payload, options...)
}

// metadataOf parses a JSON object. Values other than strings are kept as JSON text. Anything but an object counts as no
// metadata, so that one bad row does not block the others.
func metadataOf(text *string) map[string]string {
	if text == nil {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(*text), &object) != nil {
		return nil
	}
	m := make(map[string]string, len(object))
	for name, raw := range object {
		var value string
		if json.Unmarshal(raw, &value) != nil {
			value = string(raw)
		}
		m[name] = value
	}
	return m
}

// Check implements pipeline.Checker: it pings the server.
func (t *table) Check(ctx context.Context) error { return kind.Wrap("check", t.pool.Ping(ctx)) }

// poll calls ask until it returns deliveries or an error, for at most the given time.
func (t *table) poll(ctx context.Context, most time.Duration, ask func() ([]pipeline.Delivery, error)) ([]pipeline.Delivery, error) {
	end := time.Now().Add(most)
	for {
		got, err := ask()
		left := time.Until(end)
		if len(got) > 0 || err != nil || left <= 0 {
			return got, err
		}
		if err := wait.For(ctx, min(t.o.Poll, left)); err != nil {
			return nil, err
		}
	}
}
