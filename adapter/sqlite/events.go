package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tenetdev/tenet/job"
)

const (
	publishSQL = `INSERT INTO tenet_event (position, event) SELECT coalesce(max(position), 0) + 1, ? FROM tenet_event`
	trimSQL    = `DELETE FROM tenet_event WHERE position <= (SELECT max(position) FROM tenet_event) - ?`
	watchSQL   = `UPDATE tenet_watch SET until = ?`
)

// Publish implements job.Relay.
func (s *Jobs) Publish(ctx context.Context, list []job.Event) error {
	return s.write(ctx, "publish", func(q querier) error {
		for _, e := range list {
			e.Position = 0
			raw, err := json.Marshal(e)
			if err == nil {
				err = q.exec(publishSQL, string(raw))
			}
			if err != nil {
				return err
			}
		}
		return q.exec(trimSQL, job.EventsKept)
	})
}

// Watch implements job.Relay. It writes only if less than half of the time is left for which workers publish.
func (s *Jobs) Watch(ctx context.Context, after int64, limit int) (list []job.Event, last int64, err error) {
	until, err := s.watchedUntil(ctx)
	if at := now(); err == nil && until.Before(at.Add(job.WatchFor/2)) {
		err = s.write(ctx, "watch", func(q querier) error { return q.exec(watchSQL, at.Add(job.WatchFor).UnixMicro()) })
	}
	if err != nil {
		return nil, 0, err
	}
	err = s.view(ctx, "watch", func(q querier) error {
		list = nil
		err := one(q, selection{text: `SELECT coalesce(max(position), 0) FROM tenet_event`, into: []any{&last}})
		if err != nil || after < 0 {
			return err
		}
		var position int64
		var raw string
		return each(q, selection{text: `SELECT position, event FROM tenet_event WHERE position > ? ORDER BY position LIMIT ?`, args: []any{after, max(limit, 0)}, into: []any{&position, &raw}}, func() error {
			e := job.Event{}
			err := json.Unmarshal([]byte(raw), &e)
			e.Position = position
			list = append(list, e)
			return err
		})
	})
	return list, last, err
}

// Watched implements job.Relay.
func (s *Jobs) Watched(ctx context.Context) (bool, error) {
	until, err := s.watchedUntil(ctx)
	return now().Before(until), err
}

func (s *Jobs) watchedUntil(ctx context.Context) (until time.Time, err error) {
	err = s.view(ctx, "watched", func(q querier) error {
		return one(q, selection{text: `SELECT until FROM tenet_watch`, into: []any{(*instant)(&until)}})
	})
	return until, err
}
