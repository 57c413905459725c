package pgpipe

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/uuidv7"
)

// position is a consumer's position. Done are all rows that the snapshot base sees and, of those that only target sees, all up
// to and including seq.
type position struct {
	base, target string // pg_snapshot, as text
	seq          int64
}

// emptySnapshot is a snapshot that sees no transaction: the first ID that PostgreSQL assigns is 3.
const emptySnapshot = "1:1:"

// cursor is a consumer's row in the table of cursors. The holder of its lease is the reader. Every reader has a new owner ID,
// so that late writes of an earlier reader have no effect.
type cursor struct {
	*table
	source                      string // the followed table
	claim, renew, save, release string // statements
}

// prepareCursor creates the table of cursors and the consumer's row if they are missing.
func (o *Outbox) prepareCursor(ctx context.Context) error {
	name := o.schema + "." + quote("tenet_cursors")
	if o.o.Cursors != "" {
		name = quoteTable(o.o.Cursors)
	}
	o.cursor = cursor{table: o.table, source: o.name}
	o.cursor.prepare(name)
	var missing bool
	if err := o.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NULL`, name).Scan(&missing); err != nil {
		return kind.Wrap("cursors", err)
	}
	if missing {
		if err := o.create(ctx, name); err != nil {
			return kind.Wrap("create the table of cursors "+name, err)
		}
	}
	_, err := o.pool.Exec(ctx, `INSERT INTO `+name+` (source, consumer, base, target) VALUES ($1, $2, '`+emptySnapshot+`', '`+emptySnapshot+`')
		ON CONFLICT (source, consumer) DO NOTHING`, o.cursor.source, o.o.Consumer)
	return kind.Wrap("cursors", err)
}

// create creates the table under a lock, because CREATE TABLE IF NOT EXISTS fails if two processes run it at the same time.
func (t *table) create(ctx context.Context, name string) error {
	const lock int64 = 0x74656e6574 // "tenet"
	return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, lock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS `+name+` (
			source text, consumer text,
			base pg_snapshot NOT NULL, target pg_snapshot NOT NULL, seq bigint NOT NULL DEFAULT 0, ahead bigint[] NOT NULL DEFAULT '{}',
			owner text NOT NULL DEFAULT '', lease_until timestamptz NOT NULL DEFAULT '-infinity',
			PRIMARY KEY (source, consumer))`)
		return err
	})
}

func (c *cursor) prepare(name string) {
	where := ` WHERE source = $1 AND consumer = $2`
	until := `now() + $4::bigint * interval '1 microsecond'`
	c.claim = `UPDATE ` + name + ` SET owner = $3, lease_until = ` + until + where + ` AND lease_until <= now()
		RETURNING base::text, target::text, seq, ahead`
	c.renew = `UPDATE ` + name + ` SET lease_until = ` + until + where + ` AND owner = $3`
	c.save = `UPDATE ` + name + ` SET lease_until = ` + until + `, base = $5::text::pg_snapshot, target = $6::text::pg_snapshot,
		seq = $7, ahead = $8` + where + ` AND owner = $3`
	c.release = `UPDATE ` + name + ` SET lease_until = '-infinity'` + where + ` AND owner = $3`
}

// acquire claims the cursor if it is free; otherwise owner is "".
func (c *cursor) acquire(ctx context.Context) (owner string, p position, ahead []int64, err error) {
	owner = uuidv7.New(time.Now())
	err = c.pool.QueryRow(ctx, c.claim, c.source, c.o.Consumer, owner, c.o.Lease.Microseconds()).Scan(&p.base, &p.target, &p.seq, &ahead)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", p, nil, nil
	}
	return owner, p, ahead, kind.Wrap("claim the cursor", err)
}

// extend extends the lease. It returns [ErrLost] if another reader has taken over.
func (c *cursor) extend(ctx context.Context, owner string) error {
	return c.change(ctx, c.renew, owner, c.o.Lease.Microseconds())
}

// store writes a position, and the rows acknowledged beyond it.
func (c *cursor) store(ctx context.Context, owner string, p position, ahead []int64) error {
	return c.change(ctx, c.save, owner, c.o.Lease.Microseconds(), p.base, p.target, p.seq, ahead)
}

// free lets another reader take over at once.
func (c *cursor) free(ctx context.Context, owner string) error {
	err := c.change(ctx, c.release, owner)
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

func (c *cursor) change(ctx context.Context, sql, owner string, args ...any) error {
	tag, err := c.pool.Exec(ctx, sql, append([]any{c.source, c.o.Consumer, owner}, args...)...)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrLost
	}
	return err
}

// prepareReading builds the statements that read the outbox.
func (o *Outbox) prepareReading() {
	seq, tx := "t."+quote(o.o.Seq), "t."+quote(o.o.TX)
	// seq+0 keeps the planner from scanning the whole index of seq for the minimum.
	o.window = strings.Join([]string{
		`SELECT pg_current_snapshot()::text, min(` + seq + ` + 0), max(` + seq + ` + 0) FROM ` + o.name + ` AS t`,
		`WHERE ` + tx + ` >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(` + tx + `, $1::text::pg_snapshot)`,
	}, " ")
	o.page = strings.Join([]string{
		`SELECT ` + seq + `::bigint, ` + o.bodySQL("t") + ` FROM ` + o.name + ` AS t`,
		`WHERE ` + seq + ` > $3 AND ` + seq + ` <= $4 AND ` + tx + ` >= pg_snapshot_xmin($1::text::pg_snapshot)`,
		`AND NOT pg_visible_in_snapshot(` + tx + `, $1::text::pg_snapshot) AND pg_visible_in_snapshot(` + tx + `, $2::text::pg_snapshot)`,
		`ORDER BY ` + seq + ` LIMIT $5`,
	}, " ")
}
