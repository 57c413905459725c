package policysql

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/policystore"
)

// AddToken implements policystore.Credentials.
func (s *Store) AddToken(ctx context.Context, t policystore.Token) error {
	t.Created, t.Expires, t.Revoked = policystore.Stamp(t.Created), policystore.Stamp(t.Expires), policystore.Stamp(t.Revoked)
	state, err := encode(t)
	if err != nil {
		return err
	}
	return s.engine.Write(ctx, "add a token", func(tx Tx) error {
		n, err := tx.Exec(`INSERT INTO {{token}} (id, name, hash, state, revoked) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`,
			t.ID, t.Name, t.Hash, state, micros(t.Revoked))
		if err != nil || n == 0 {
			return orConflict(err, "token %q", t.Name)
		}
		return nil
	})
}

// Token implements policystore.Credentials.
func (s *Store) Token(ctx context.Context, hash string) (policystore.Token, error) {
	list, err := s.tokens(ctx, `SELECT hash, state, revoked FROM {{token}} WHERE hash = ?1`, hash)
	if err = one(len(list) > 0, err, "token"); err != nil {
		return policystore.Token{}, err
	}
	return list[0], nil
}

// Tokens implements policystore.Credentials.
func (s *Store) Tokens(ctx context.Context, after string, limit int) ([]policystore.Token, error) {
	return s.tokens(ctx, `SELECT hash, state, revoked FROM {{token}} WHERE id > ?1 ORDER BY id LIMIT ?2`, after, max(limit, 0))
}

func (s *Store) tokens(ctx context.Context, text string, args ...any) ([]policystore.Token, error) {
	var hash, state string
	var revoked int64
	return read(ctx, s, Query{"tokens", text, args, []any{&hash, &state, &revoked}}, func() (t policystore.Token, err error) {
		err = decode(state, &t)
		t.Hash, t.Revoked = hash, fromMicros(revoked)
		return t, err
	})
}

// RevokeToken implements policystore.Credentials.
func (s *Store) RevokeToken(ctx context.Context, id string, at time.Time) error {
	return s.engine.Write(ctx, "revoke a token", func(tx Tx) error {
		n, err := tx.Exec(`UPDATE {{token}} SET revoked = CASE revoked WHEN 0 THEN ?2 ELSE revoked END WHERE id = ?1`, id, micros(at))
		return one(n > 0, err, "token %q", id)
	})
}

// Setting implements policystore.Credentials.
func (s *Store) Setting(ctx context.Context, name string) (policystore.Setting, error) {
	v := policystore.Setting{Name: name}
	err := s.engine.Read(ctx, "setting", func(tx Tx) error {
		q := Query{Text: `SELECT version, value FROM {{setting}} WHERE name = ?1`, Args: []any{name}, Targets: []any{&v.Version, &v.Value}}
		return tx.Query(q, func() error { return nil })
	})
	if err = one(v.Version > 0, err, "setting %q", name); err != nil {
		return policystore.Setting{}, err
	}
	return v, nil
}

// SaveSetting implements policystore.Credentials.
func (s *Store) SaveSetting(ctx context.Context, v policystore.Setting) (policystore.Setting, error) {
	value := append([]byte{}, v.Value...)
	err := s.engine.Write(ctx, "save a setting", func(tx Tx) error {
		text, args := `UPDATE {{setting}} SET version = version + 1, value = ?3 WHERE name = ?1 AND version = ?2`, []any{v.Name, v.Version, value}
		if v.Version == 0 {
			text, args = `INSERT INTO {{setting}} (name, version, value) VALUES (?1, 1, ?2) ON CONFLICT DO NOTHING`, []any{v.Name, value}
		}
		if n, err := tx.Exec(text, args...); err != nil || n == 0 {
			return orConflict(err, "setting %q", v.Name)
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	v.Version++
	return v, nil
}
