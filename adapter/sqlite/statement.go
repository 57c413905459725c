package sqlite

import (
	"context"
	"database/sql"
	"strings"
)

// querier runs statements inside a transaction: the writer's, or one of a caller.
type querier interface {
	exec(text string, args ...any) error
	// update is exec that returns the number of rows changed.
	update(text string, args ...any) (int64, error)
	query(text string, args ...any) (*sql.Rows, error)
	// changed notes that work has become ready.
	changed()
	// count adds to the totals and to the causes of dead jobs, at the latest when the transaction is committed.
	count(changes totals, deaths causes) error
	// gate returns the limits of the store, with what has happened in this transaction to jobs that have some.
	gate() (*gate, error)
	// refreshGate notes that the limits have changed.
	refreshGate()
}

// session is a connection of the writer or a reader. It keeps its statements prepared: planning one costs more than running
// it.
type session struct {
	ctx           context.Context // of its statements
	conn          *sql.Conn
	statements    map[string]*sql.Stmt
	inTransaction bool
	ready         bool   // work has become ready in this transaction
	totals        totals // changes in this transaction that are to be written before it is committed
	causes        causes // the same
	gates         *gate  // of this transaction; nil until it is asked for
}

func newSession(ctx context.Context, conn *sql.Conn) *session {
	return &session{ctx: ctx, conn: conn, statements: map[string]*sql.Stmt{}, totals: totals{}, causes: causes{}}
}

// maxStatements bounds the prepared statements of a session. The package itself needs about half as many; filters can add any number.
const maxStatements = 500

// begin begins a transaction: `BEGIN IMMEDIATE` to write, `BEGIN` to read.
func (s *session) begin(text string) error {
	if len(s.statements) > maxStatements { // not later, when rows may be open
		s.forget()
	}
	err := s.always(text)
	s.inTransaction = err == nil
	clear(s.totals)
	clear(s.causes)
	s.gates = nil
	return err
}

func (s *session) commit() error {
	var err error
	if s.gates != nil {
		err = tend(s, now())
	}
	if err == nil {
		err = s.totals.write(s.exec)
	}
	if err == nil {
		err = s.causes.write(s.exec)
	}
	if err == nil {
		err = s.always(`COMMIT`)
	}
	s.inTransaction = err != nil
	return err
}

// rollback ends a transaction that was not committed. It fails only if there is no transaction, because SQLite has ended it
// after a failure of the disk.
func (s *session) rollback() {
	if s.inTransaction {
		s.inTransaction = false
		_ = s.always(`ROLLBACK`)
	}
}

// always runs a statement that begins or ends a transaction, even if the session's context ends: the driver may report the statement
// in which a context ended as failed although it has taken effect.
func (s *session) always(text string) error {
	defer func(ctx context.Context) { s.ctx = ctx }(s.ctx)
	s.ctx = background
	return s.exec(text)
}

func (s *session) prepare(text string) (*sql.Stmt, error) {
	if statement, ok := s.statements[text]; ok {
		return statement, nil
	}
	statement, err := s.conn.PrepareContext(s.ctx, text)
	if err == nil {
		s.statements[text] = statement
	}
	return statement, err
}

func (s *session) exec(text string, args ...any) error {
	_, err := s.update(text, args...)
	return err
}

func (s *session) update(text string, args ...any) (int64, error) {
	statement, err := s.prepare(text)
	if err != nil {
		return 0, err
	}
	return affected(statement.ExecContext(s.ctx, args...))
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (s *session) query(text string, args ...any) (*sql.Rows, error) {
	statement, err := s.prepare(text)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(s.ctx, args...)
}

func (s *session) changed() { s.ready = true }

func (s *session) count(changes totals, deaths causes) error {
	s.totals.merge(changes)
	for k, d := range deaths {
		s.causes.add(k, d)
	}
	return nil
}

func (s *session) gate() (g *gate, err error) {
	if s.gates == nil {
		s.gates, err = readGate(s)
	}
	return s.gates, err
}

func (s *session) refreshGate() { s.gates = nil }

// forget closes the prepared statements.
func (s *session) forget() {
	for _, statement := range s.statements {
		_ = statement.Close()
	}
	clear(s.statements)
}

func (s *session) close() error {
	s.forget()
	return s.conn.Close()
}

// transaction is a caller's transaction. Listeners notice its work when they check whether the file has changed.
type transaction struct {
	ctx   context.Context
	tx    *sql.Tx
	gates *gate // in this operation; nil until it is asked for
}

func newTransaction(ctx context.Context, tx *sql.Tx) *transaction {
	return &transaction{ctx: ctx, tx: tx}
}

func (t *transaction) gate() (g *gate, err error) {
	if t.gates == nil {
		t.gates, err = readGate(t)
	}
	return t.gates, err
}

func (t *transaction) refreshGate() { t.gates = nil }

func (t *transaction) exec(text string, args ...any) error {
	_, err := t.update(text, args...)
	return err
}

func (t *transaction) update(text string, args ...any) (int64, error) {
	return affected(t.tx.ExecContext(t.ctx, text, args...))
}

func (t *transaction) query(text string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(t.ctx, text, args...)
}

func (t *transaction) changed() {}

func (t *transaction) count(changes totals, deaths causes) error {
	if err := changes.write(t.exec); err != nil {
		return err
	}
	return deaths.write(t.exec)
}

// bulkSizes are the numbers of rows that a bulk statement is prepared for. Starting a statement is most of its cost, so each
// run takes as many rows as possible.
var bulkSizes = [...]int{64, 32, 16, 8, 4, 2, 1}

// bulk is a statement over a list of rows.
type bulk struct {
	width int // values in a row
	texts [len(bulkSizes)]string
}

// newBulk makes a bulk statement: head, a row of parameters for each row, tail. The head may have parameters of its own,
// numbered from ?1.
func newBulk(width int, head, tail string) *bulk {
	b := &bulk{width: width}
	row := "(" + strings.Repeat("?,", width-1) + "?)"
	for i, n := range bulkSizes {
		b.texts[i] = head + strings.Repeat(row+",", n-1) + row + tail
	}
	return b
}

// exec runs the statement for all rows. args are the rows' values one after the other.
func (b *bulk) exec(q querier, args []any, head ...any) error {
	for i, n := range bulkSizes {
		for n *= b.width; len(args) >= n; args = args[n:] {
			if err := q.exec(b.texts[i], append(head[:len(head):len(head)], args[:n]...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// each runs the statement for all rows of s.args, scans every row that it returns and calls f. head comes before the
// parameters of each statement.
func (b *bulk) each(q querier, s selection, f func() error, head ...any) error {
	for i, n := range bulkSizes {
		for n *= b.width; len(s.args) >= n; s.args = s.args[n:] {
			part := selection{text: b.texts[i], args: append(head[:len(head):len(head)], s.args[:n]...), into: s.into}
			if err := each(q, part, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// selection is a query with its parameters and the targets of its columns.
type selection struct {
	text string
	args []any
	into []any
}

// each scans every row of a query into its targets and calls f.
func each(q querier, s selection, f func() error) error {
	rows, err := q.query(s.text, s.args...)
	if err != nil {
		return err
	}
	return drain(rows, s.into, f)
}

// one scans the row of a query into its targets, if there is a row.
func one(q querier, s selection) error {
	return each(q, s, func() error { return nil })
}

// all returns what the rows of a query leave in x, of which the targets are parts.
func all[T any](q querier, s selection, x *T) (list []T, err error) {
	err = each(q, s, func() error {
		list = append(list, *x)
		return nil
	})
	return list, err
}

// column returns the values of a query with one column.
func column[T any](q querier, text string, args ...any) ([]T, error) {
	var value T
	return all(q, selection{text: text, args: args, into: []any{&value}}, &value)
}

func drain(rows *sql.Rows, targets []any, f func() error) error {
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}
