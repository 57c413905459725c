package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// Publish implements job.Relay. Lists are stored one after the other, so that their positions become visible in order.
func (j *Jobs) Publish(ctx context.Context, list []job.Event) error {
	texts := make([]string, len(list))
	for i, e := range list {
		e.Position = 0
		raw, err := json.Marshal(e)
		if err != nil {
			return err
		}
		texts[i] = string(raw)
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_advisory_xact_lock($1)`, j.db.lockKey("events"))
	b.Queue(j.db.sql(`
INSERT INTO {{schema}}.event (position, event)
SELECT coalesce((SELECT max(position) FROM {{schema}}.event), 0) + n, text FROM unnest($1::text[]) WITH ORDINALITY AS e (text, n)`), texts)
	b.Queue(j.db.sql(`DELETE FROM {{schema}}.event WHERE position <= (SELECT max(position) FROM {{schema}}.event) - $1`), job.EventsKept)
	return j.db.run(ctx, "publish", b)
}

// Watch implements job.Relay. It writes only if less than half of the time is left for which workers publish.
func (j *Jobs) Watch(ctx context.Context, after int64, limit int) (list []job.Event, last int64, err error) {
	b := &pgx.Batch{}
	b.Queue(j.db.sql(`
UPDATE {{schema}}.watch SET until = statement_timestamp() + $1::bigint * interval '1 microsecond'
WHERE until < statement_timestamp() + $1::bigint / 2 * interval '1 microsecond'`), job.WatchFor.Microseconds())
	b.Queue(j.db.sql(`SELECT coalesce(max(position), 0) FROM {{schema}}.event`)).QueryRow(func(row pgx.Row) error { return row.Scan(&last) })
	if after >= 0 {
		var position int64
		var raw string
		each(b.Queue(j.db.sql(`SELECT position, event FROM {{schema}}.event WHERE position > $1 ORDER BY position LIMIT $2`), after, max(limit, 0)), []any{&position, &raw}, func() error {
			e := job.Event{}
			err := json.Unmarshal([]byte(raw), &e)
			e.Position = position
			list = append(list, e)
			return err
		})
	}
	if err := j.db.run(ctx, "watch", b); err != nil {
		return nil, 0, err
	}
	return list, last, nil
}

// Watched implements job.Relay.
func (j *Jobs) Watched(ctx context.Context) (watched bool, err error) {
	b := &pgx.Batch{}
	b.Queue(j.db.sql(`SELECT until > statement_timestamp() FROM {{schema}}.watch`)).QueryRow(func(row pgx.Row) error { return row.Scan(&watched) })
	return watched, j.db.run(ctx, "watched", b)
}
