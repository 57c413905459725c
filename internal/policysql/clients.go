package policysql

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policystore"
)

// SaveClients implements policystore.Clients.
func (s *Store) SaveClients(ctx context.Context, list []policystore.Client) error {
	rows := make([][]any, 0, len(list))
	for _, c := range sortedBy(list, func(a, b policystore.Client) int { // one order for all, so that two servers cannot deadlock
		return cmp.Or(strings.Compare(a.Document, b.Document), strings.Compare(a.ID, b.ID))
	}) {
		labels, err := encode(c.Labels)
		if err != nil {
			return err
		}
		said, err := encodeReported(&c)
		if err != nil {
			return err
		}
		rows = append(rows, []any{c.Document, c.ID, labels, c.Desired, c.Delivered, c.Applied, c.Refused, c.Reason, int64(c.Staleness), micros(c.LastSeen), said})
	}
	return s.engine.Write(ctx, "save clients", func(tx Tx) error {
		return tx.ExecMany(`INSERT INTO {{client}} AS c (document, id, labels, desired, delivered, applied, refused, reason, staleness, last_seen, reported)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (document, id) DO UPDATE SET labels = excluded.labels, desired = excluded.desired, delivered = excluded.delivered,
applied = excluded.applied, refused = excluded.refused, reason = excluded.reason, staleness = excluded.staleness, last_seen = excluded.last_seen,
reported = COALESCE(excluded.reported, c.reported)
WHERE excluded.last_seen >= c.last_seen`, rows)
	})
}

func sortedBy[T any](list []T, compare func(a, b T) int) []T {
	return slices.SortedStableFunc(slices.Values(list), compare)
}

// encodeReported returns nil if nothing was reported, and an empty text, which the partial index leaves out, for an empty report.
func encodeReported(c *policystore.Client) (any, error) {
	switch {
	case c.Reported == nil:
		return nil, nil
	case c.Reported.Empty():
		return "", nil
	}
	return encode(c.Reported.Stamped())
}

const clientColumns = `SELECT document, id, labels, desired, delivered, applied, refused, reason, staleness, last_seen, COALESCE(reported, '') FROM {{client}} `

// Clients implements policystore.Clients.
func (s *Store) Clients(ctx context.Context, document string, after policystore.ClientKey, limit int) ([]policystore.Client, error) {
	q := Query{What: "clients", Args: []any{after.Document, after.ID, max(limit, 0)}}
	q.Text = clientColumns + `WHERE (document, id) > (?1, ?2) ORDER BY document, id LIMIT ?3`
	if document != "" {
		q.Text = clientColumns + `WHERE document = ?1 AND (document, id) > (?2, ?3) ORDER BY document, id LIMIT ?4`
		q.Args = append([]any{document}, q.Args...)
	}
	return s.readClients(ctx, q)
}

// ReportingClients implements policystore.Clients.
func (s *Store) ReportingClients(ctx context.Context, since time.Time, after policystore.ClientKey, limit int) ([]policystore.Client, error) {
	return s.readClients(ctx, Query{
		What: "reporting clients",
		Text: clientColumns + `WHERE reported <> '' AND last_seen >= ?1 AND (document, id) > (?2, ?3) ORDER BY document, id LIMIT ?4`,
		Args: []any{micros(since), after.Document, after.ID, max(limit, 0)},
	})
}

func (s *Store) readClients(ctx context.Context, q Query) ([]policystore.Client, error) {
	var c policystore.Client
	var labels, said string
	var staleness, seen int64
	q.Targets = []any{&c.Document, &c.ID, &labels, &c.Desired, &c.Delivered, &c.Applied, &c.Refused, &c.Reason, &staleness, &seen, &said}
	return read(ctx, s, q, func() (policystore.Client, error) {
		found := c
		found.Staleness, found.LastSeen = time.Duration(staleness), fromMicros(seen)
		err := decode(labels, &found.Labels)
		if err == nil && said != "" {
			err = decode(said, &found.Reported)
		}
		return found, err
	})
}

// CountClients implements policystore.Clients.
func (s *Store) CountClients(ctx context.Context, document string, since time.Time) ([]policystore.ClientCount, error) {
	var c policystore.ClientCount
	return read(ctx, s, Query{
		What: "count clients",
		Text: `SELECT desired, applied, refused, count(*) FROM {{client}} WHERE document = ?1 AND last_seen >= ?2
GROUP BY desired, applied, refused ORDER BY desired, applied, refused`,
		Args: []any{document, micros(since)}, Targets: []any{&c.Desired, &c.Applied, &c.Refused, &c.Clients},
	}, func() (policystore.ClientCount, error) { return c, nil })
}

// RemoveClients implements policystore.Clients. It waits for no client that is being saved, so that it cannot deadlock with the save.
func (s *Store) RemoveClients(ctx context.Context, before time.Time, limit int) (int, error) {
	n := int64(0)
	err := s.engine.Write(ctx, "remove clients", func(tx Tx) (err error) {
		n, err = tx.Exec(`DELETE FROM {{client}} WHERE (document, id) IN
(SELECT document, id FROM {{client}} WHERE last_seen < ?1 ORDER BY last_seen LIMIT ?2`+s.engine.SkipLocked()+`)`, micros(before), max(limit, 0))
		return err
	})
	return int(n), err
}
