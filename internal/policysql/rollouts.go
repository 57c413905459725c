package policysql

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

// AddEvidence implements policystore.Rollouts.
func (s *Store) AddEvidence(ctx context.Context, list []policystore.Evidence) error {
	list = sortedBy(list, func(a, b policystore.Evidence) int { // one order for all, so that two servers cannot deadlock
		return cmp.Or(strings.Compare(a.Rollout, b.Rollout), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Revision, b.Revision))
	})
	return s.engine.Write(ctx, "add evidence", func(tx Tx) error {
		for _, e := range list {
			if err := addEvidence(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// addEvidence locks the stored row, or makes an empty one, and writes the sum.
func addEvidence(tx Tx, e policystore.Evidence) error {
	stored := ""
	err := tx.Query(Query{
		Text: `INSERT INTO {{evidence}} AS e (rollout, step, revision, counters) VALUES (?1, ?2, ?3, '{}')
ON CONFLICT (rollout, step, revision) DO UPDATE SET counters = e.counters RETURNING counters`,
		Args: []any{e.Rollout, int64(e.Step), e.Revision}, Targets: []any{&stored},
	}, func() error { return nil })
	if err != nil {
		return err
	}
	var sum struct {
		rollout.Counters
		Batches map[string]int64 `json:"batches,omitempty"` // the last of each source
	}
	if err := decode(stored, &sum); err != nil {
		return err
	}
	if e.Source != "" {
		if e.Batch <= sum.Batches[e.Source] {
			return nil
		}
		if sum.Batches == nil {
			sum.Batches = map[string]int64{}
		}
		sum.Batches[e.Source] = e.Batch
	}
	sum.Add(e.Counters)
	text, err := encode(sum)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE {{evidence}} SET counters = ?4 WHERE rollout = ?1 AND step = ?2 AND revision = ?3`, e.Rollout, int64(e.Step), e.Revision, text)
	return err
}

// Evidence implements policystore.Rollouts.
func (s *Store) Evidence(ctx context.Context, rolloutID string) ([]policystore.Evidence, error) {
	var step, revision int64
	var counters string
	return read(ctx, s, Query{
		What: "evidence",
		Text: `SELECT step, revision, counters FROM {{evidence}} WHERE rollout = ?1 ORDER BY step, revision`,
		Args: []any{rolloutID}, Targets: []any{&step, &revision, &counters},
	}, func() (policystore.Evidence, error) {
		e := policystore.Evidence{Rollout: rolloutID, Step: int(step), Revision: revision}
		err := decode(counters, &e.Counters)
		return e, err
	})
}

// Lead implements policystore.Rollouts by the engine's clock.
func (s *Store) Lead(ctx context.Context, task, server string, ttl time.Duration) (bool, error) {
	n := int64(0)
	err := s.engine.Write(ctx, "lead", func(tx Tx) (err error) {
		n, err = tx.Exec(`INSERT INTO {{leader}} AS l (task, server, until) VALUES (?1, ?2, `+s.engine.Now()+` + ?3)
ON CONFLICT (task) DO UPDATE SET server = excluded.server, until = excluded.until
WHERE l.server = excluded.server OR l.until <= excluded.until - ?3`, task, server, ttl.Microseconds())
		return err
	})
	return n > 0, err
}
