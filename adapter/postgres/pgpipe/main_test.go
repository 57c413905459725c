package pgpipe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/pipeline"
)

var server *testpg.Server

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if server, err = testpg.StartWithClock(testpg.NoSync); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if err := errors.Join(server.Close(), goleak.Find()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// advance moves the server's clock forward for the rest of the test.
func advance(t *testing.T, d time.Duration) { t.Helper(); server.Advance(t, d) }

func restart(t *testing.T) {
	t.Helper()
	if err := errors.Join(server.Stop(), server.Run()); err != nil {
		t.Error(err)
	}
}

// exec runs statements on a new connection, even while another test restarts the server.
func exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	onConnection(t, func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	})
}

func onConnection(t testing.TB, f func(ctx context.Context, c *pgx.Conn) error) {
	t.Helper()
	ctx := context.Background()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var c *pgx.Conn
		if c, err = pgx.Connect(ctx, server.ClockURL()); err != nil {
			continue
		}
		err = errors.Join(f(ctx, c), c.Close(ctx))
		break
	}
	if err != nil {
		t.Error(err)
	}
}

// lease is longer than any test; a test that needs its end advances the server's clock.
const lease = 10 * time.Minute

var tables atomic.Int64

// newTable creates a table whose name must be quoted.
func newTable(t testing.TB, columns string) (o pgpipe.Options, name string) {
	t.Helper()
	plain := fmt.Sprintf(`My "table"; -- %d`, tables.Add(1))
	name = pgx.Identifier{"public", plain}.Sanitize()
	exec(t, "CREATE TABLE "+name+" ("+columns+")")
	t.Cleanup(func() { exec(t, "DROP TABLE "+name) })
	return pgpipe.Options{
		Table: "public." + plain, Metadata: "meta", Correlation: "correlation", Parent: "parent",
		Lease: lease, Poll: 20 * time.Millisecond,
	}, name
}

const (
	bodyColumns   = `payload bytea NOT NULL, meta jsonb, correlation text, parent text`
	queueColumns  = `id text PRIMARY KEY, available_at timestamptz NOT NULL DEFAULT now(), deliveries integer NOT NULL DEFAULT 0, ` + bodyColumns
	outboxColumns = `seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tx xid8 NOT NULL DEFAULT pg_current_xact_id(), id text NOT NULL, ` + bodyColumns
)

// put inserts transactions one by one, as an application would.
func put(t testing.TB, name string, list []*pipeline.Transaction) {
	t.Helper()
	onConnection(t, func(ctx context.Context, c *pgx.Conn) error {
		b := &pgx.Batch{}
		for _, x := range list {
			b.Queue("INSERT INTO "+name+" (id, payload, meta, correlation, parent) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
				x.ID(), x.Payload(), x.AllMetadata(), x.Correlation(), x.Parent())
		}
		return c.SendBatch(ctx, b).Close()
	})
}

// taken reads transactions in an order.
func taken(t testing.TB, name, order string) (list []*pipeline.Transaction) {
	t.Helper()
	onConnection(t, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT id, payload, meta, correlation, parent FROM "+name+" ORDER BY "+order)
		if err != nil {
			return err
		}
		var id, correlation, parent string
		var payload []byte
		var meta map[string]string
		_, err = pgx.ForEachRow(rows, []any{&id, &payload, &meta, &correlation, &parent}, func() error {
			list = append(list, pipeline.NewTransaction(id, append([]byte(nil), payload...), pipeline.WithMetadata(meta),
				pipeline.WithCorrelation(correlation), pipeline.WithParent(parent)))
			return nil
		})
		return err
	})
	return list
}
