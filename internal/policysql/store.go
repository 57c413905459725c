package policysql

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policystore"
)

// Engine runs statements. A failure of what f does rolls everything back; f may run twice.
type Engine interface {
	Read(ctx context.Context, what string, f func(Tx) error) error
	Write(ctx context.Context, what string, f func(Tx) error) error
	// Now is the SQL expression of the time in microseconds.
	Now() string
	// SkipLocked ends a SELECT of rows that its statement is about to change: it leaves out what others are changing, where the engine lets
	// several write at once.
	SkipLocked() string
	// Open reports an error if the engine has been closed.
	Open(ctx context.Context) error
}

// Tx is a transaction.
type Tx interface {
	// Exec returns the number of rows changed.
	Exec(text string, args ...any) (int64, error)
	// ExecMany runs a statement for each list of arguments.
	ExecMany(text string, rows [][]any) error
	// Query calls each for every row, after it has been scanned into targets.
	Query(q Query, each func() error) error
}

// Query is a statement that returns rows.
type Query struct {
	What    string // of a query of read: the name in errors
	Text    string
	Args    []any
	Targets []any
}

// Store is a policystore.Store. It is safe for concurrent use.
type Store struct {
	engine Engine
	bell   wait.Bell // rings for documents saved through this store
}

var _ policystore.Store = (*Store)(nil)

// New returns the policy store of an engine.
func New(e Engine) *Store { return &Store{engine: e} }

// Close closes the channels of Watch.
func (s *Store) Close() { s.bell.Close() }

// lookEvery is how often Watch looks for documents that other processes have saved.
const lookEvery = 100 * time.Millisecond

// Watch implements policystore.Documents: at once for documents that this process saves, within lookEvery for others.
func (s *Store) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.engine.Open(ctx); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	own := s.bell.Listen(ctx)
	signals := wait.NewSignal()
	go func() {
		defer close(signals)
		defer stop()
		timer := time.NewTicker(lookEvery)
		defer timer.Stop()
		for last := int64(-1); ; {
			if n, err := s.changes(ctx); err == nil && n != last {
				last = n
				signals.Send()
			}
			select {
			case _, open := <-own:
				if !open {
					return
				}
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return signals, nil
}

// changes counts the changes of documents.
func (s *Store) changes(ctx context.Context) (n int64, err error) {
	err = s.engine.Read(ctx, "watch", func(tx Tx) error {
		return tx.Query(Query{Text: `SELECT changes FROM {{change}}`, Targets: []any{&n}}, func() error { return nil })
	})
	return n, err
}

// read returns what row makes of each row of a query, which runs in a transaction of its own that the engine may repeat.
func read[T any](ctx context.Context, s *Store, q Query, row func() (T, error)) (list []T, err error) {
	err = s.engine.Read(ctx, q.What, func(tx Tx) error {
		list = nil
		return tx.Query(q, func() error {
			x, err := row()
			list = append(list, x)
			return err
		})
	})
	return list, err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

func encode(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

func decode(text string, v any) error { return json.Unmarshal([]byte(text), v) }

func conflict(format string, args ...any) error {
	return fmt.Errorf("%w: %s", policystore.ErrConflict, fmt.Sprintf(format, args...))
}

// one returns ErrNotFound unless a row was found.
func one(found bool, err error, format string, args ...any) error {
	if err != nil || found {
		return err
	}
	return fmt.Errorf("%w: %s", policystore.ErrNotFound, fmt.Sprintf(format, args...))
}
