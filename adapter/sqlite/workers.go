package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tenetdev/tenet/job"
)

const (
	announceSQL = `INSERT INTO tenet_worker (name, until, queues, types) VALUES (?, ?, ?, ?)`
	withdrawSQL = `DELETE FROM tenet_worker WHERE until <= ?1 OR name = ?2`
	workersSQL  = `SELECT name, queues, types FROM tenet_worker WHERE until > ? ORDER BY name`
)

// Announce implements job.Registry.
func (s *Jobs) Announce(ctx context.Context, w job.WorkerInfo, ttl time.Duration) error {
	if ttl > 0 {
		if err := job.CheckLease(ttl); err != nil {
			return err
		}
	}
	return s.write(ctx, "announce", func(q querier) error {
		at := now()
		if err := q.exec(withdrawSQL, at.UnixMicro(), w.Name); err != nil || ttl <= 0 {
			return err
		}
		return q.exec(announceSQL, w.Name, at.Add(ttl).UnixMicro(), list(w.Queues, itself), list(w.Types, itself))
	})
}

// Workers implements job.Registry.
func (s *Jobs) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	return viewed(ctx, s, "workers", func(q querier) (found []job.WorkerInfo, err error) {
		var name, queues, types string
		err = each(q, selection{text: workersSQL, args: []any{now().UnixMicro()}, into: []any{&name, &queues, &types}}, func() error {
			w := job.WorkerInfo{Name: name}
			err := errors.Join(json.Unmarshal([]byte(queues), &w.Queues), json.Unmarshal([]byte(types), &w.Types))
			found = append(found, w)
			return err
		})
		return found, err
	})
}
