package policysql

import (
	"context"

	"github.com/tenetdev/tenet/policystore"
)

// Documents implements policystore.Documents.
func (s *Store) Documents(ctx context.Context, after string, limit int) ([]policystore.Document, error) {
	return s.documents(ctx, `SELECT version, state FROM {{document}} WHERE name > ?1 ORDER BY name LIMIT ?2`, after, max(limit, 0))
}

// Document implements policystore.Documents.
func (s *Store) Document(ctx context.Context, name string) (policystore.Document, error) {
	list, err := s.documents(ctx, `SELECT version, state FROM {{document}} WHERE name = ?1`, name)
	if err = one(len(list) > 0, err, "document %q", name); err != nil {
		return policystore.Document{}, err
	}
	return list[0], nil
}

func (s *Store) documents(ctx context.Context, text string, args ...any) ([]policystore.Document, error) {
	var version int64
	var state string
	return read(ctx, s, Query{"documents", text, args, []any{&version, &state}}, func() (d policystore.Document, err error) {
		err = decode(state, &d)
		d.Version = version
		return d, err
	})
}

// Save implements policystore.Documents.
func (s *Store) Save(ctx context.Context, d policystore.Document, add ...policystore.Revision) (policystore.Document, error) {
	next := d
	next.Version++
	next.Updated = policystore.Stamp(d.Updated)
	state, err := encode(next)
	if err != nil {
		return d, err
	}
	for _, r := range add {
		if r.Document != d.Name {
			return d, conflict("revision %d of document %q", r.Number, r.Document)
		}
	}
	err = s.engine.Write(ctx, "save a document", func(tx Tx) error {
		text, args := `UPDATE {{document}} SET version = version + 1, state = ?3 WHERE name = ?1 AND version = ?2`, []any{d.Name, d.Version, state}
		if d.Version == 0 {
			text, args = `INSERT INTO {{document}} (name, version, state) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING`, []any{d.Name, state}
		}
		if n, err := tx.Exec(text, args...); err != nil || n == 0 {
			return orConflict(err, "document %q", d.Name)
		}
		for _, r := range add {
			n, err := tx.Exec(`INSERT INTO {{revision}} (document, number, hash, body, author, message, created, parent, restores)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING`,
				d.Name, r.Number, r.Hash, append([]byte{}, r.Body...), r.Author, r.Message, micros(r.Created), r.Parent, r.Restores)
			if err != nil || n == 0 {
				return orConflict(err, "revision %d of document %q", r.Number, d.Name)
			}
		}
		_, err := tx.Exec(`UPDATE {{change}} SET changes = changes + 1`)
		return err
	})
	if err != nil {
		return d, err
	}
	s.bell.Ring()
	return next, nil
}

// orConflict is err, or a conflict if there is none.
func orConflict(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return conflict(format, args...)
}

const revisionColumns = `SELECT document, number, hash, author, message, created, parent, restores`

// Revision implements policystore.Documents.
func (s *Store) Revision(ctx context.Context, name string, number int64) (policystore.Revision, error) {
	var body []byte
	list, err := s.revisions(ctx, Query{
		"revision", revisionColumns + `, body FROM {{revision}} WHERE document = ?1 AND number = ?2`, []any{name, number}, []any{&body},
	})
	if err = one(len(list) > 0, err, "revision %d of document %q", number, name); err != nil {
		return policystore.Revision{}, err
	}
	list[0].Body = body
	return list[0], nil
}

// Revisions implements policystore.Documents.
func (s *Store) Revisions(ctx context.Context, name string, below int64, limit int) ([]policystore.Revision, error) {
	return s.revisions(ctx, Query{
		What: "revisions",
		Text: revisionColumns + ` FROM {{revision}} WHERE document = ?1 AND (number < ?2 OR ?2 = 0) ORDER BY number DESC LIMIT ?3`,
		Args: []any{name, below, max(limit, 0)},
	})
}

// revisions reads revisionColumns, and what else the query has targets for.
func (s *Store) revisions(ctx context.Context, q Query) ([]policystore.Revision, error) {
	var r policystore.Revision
	var created int64
	q.Targets = append([]any{&r.Document, &r.Number, &r.Hash, &r.Author, &r.Message, &created, &r.Parent, &r.Restores}, q.Targets...)
	return read(ctx, s, q, func() (policystore.Revision, error) {
		r.Created = fromMicros(created)
		return r, nil
	})
}
