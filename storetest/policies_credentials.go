package storetest

import (
	"errors"
	"time"

	"github.com/tenetdev/tenet/policystore"
)

func token(id string) policystore.Token {
	return policystore.Token{
		ID: id, Name: "name of " + id, Hash: "hash of " + id, Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate},
		Queues: []string{"mail", "eu-*"}, Documents: []string{"payments"}, Created: published, Expires: published.Add(time.Hour), Creator: "alice",
	}
}

func storedToken(t policystore.Token) policystore.Token {
	t.Created, t.Expires, t.Revoked = policystore.Stamp(t.Created), policystore.Stamp(t.Expires), policystore.Stamp(t.Revoked)
	return t
}

func credentialCases() []policiesCase {
	return []policiesCase{
		{"S5 a token is found by its hash", func(s *policies) {
			s.ok(s.AddToken(s.ctx, token("a")))
			s.ok(s.AddToken(s.ctx, token("b")))
			got, err := s.second.Token(s.ctx, "hash of b")
			s.ok(err)
			s.same(storedToken(token("b")), got, "token")
			s.must(errorOf(s.Token(s.ctx, "nope")), policystore.ErrNotFound)
		}},
		{"S5 IDs, names and hashes are unique", func(s *policies) {
			s.ok(s.AddToken(s.ctx, token("a")))
			for what, change := range map[string]func(*policystore.Token){
				"ID": func(t *policystore.Token) { t.ID = "a" }, "name": func(t *policystore.Token) { t.Name = "name of a" }, "hash": func(t *policystore.Token) { t.Hash = "hash of a" },
			} {
				other := token("b")
				change(&other)
				if err := s.second.AddToken(s.ctx, other); !errors.Is(err, policystore.ErrConflict) {
					s.Errorf("the same %s: %v, want ErrConflict", what, err)
				}
			}
		}},
		{"S5 a token is revoked once", func(s *policies) {
			never := token("a")
			never.Expires = time.Time{}
			s.ok(s.AddToken(s.ctx, never))
			s.ok(s.RevokeToken(s.ctx, "a", published.Add(time.Minute)))
			s.ok(s.second.RevokeToken(s.ctx, "a", published.Add(time.Hour)))
			got, err := s.Token(s.ctx, "hash of a")
			s.ok(err)
			never.Revoked = published.Add(time.Minute)
			s.same(storedToken(never), got, "token")
			if !got.Valid(published) || got.Valid(published.Add(time.Minute)) {
				s.Error("the token is not refused from its revocation on")
			}
			s.must(s.RevokeToken(s.ctx, "nope", published), policystore.ErrNotFound)
		}},
		{"S5 tokens are listed by ID", func(s *policies) {
			for _, id := range []string{"b", "c", "a"} {
				s.ok(s.AddToken(s.ctx, token(id)))
			}
			first, err := s.second.Tokens(s.ctx, "", 2)
			s.ok(err)
			rest, err := s.second.Tokens(s.ctx, "b", 2)
			s.ok(err)
			s.same([]policystore.Token{storedToken(token("a")), storedToken(token("b")), storedToken(token("c"))}, append(first, rest...), "tokens")
		}},
		{"S4 a setting is written by compare-and-set", func(s *policies) {
			s.must(errorOf(s.Setting(s.ctx, "keys")), policystore.ErrNotFound)
			saved, err := s.SaveSetting(s.ctx, policystore.Setting{Name: "keys", Value: []byte("\x00one")})
			s.ok(err)
			for _, stale := range []policystore.Setting{{Name: "keys"}, {Name: "keys", Version: 2}, {Name: "other", Version: 1}} {
				if _, err := s.second.SaveSetting(s.ctx, stale); !errors.Is(err, policystore.ErrConflict) {
					s.Errorf("%q, version %d: %v, want ErrConflict", stale.Name, stale.Version, err)
				}
			}
			saved.Value = []byte("two")
			saved, err = s.second.SaveSetting(s.ctx, saved)
			s.ok(err)
			got, err := s.Setting(s.ctx, "keys")
			s.ok(err)
			s.same(saved, got, "setting")
			s.same(policystore.Setting{Name: "keys", Version: 2, Value: []byte("two")}, got, "setting")
		}},
	}
}
