package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tenetdev/tenet/policystore"
)

const (
	sessionCookie = "__Host-tenet-session"
	sessionTime   = 8 * time.Hour
)

// session is what the cookie of a browser says: a person that OpenID Connect knows, or the hash of a token.
type session struct {
	Name    string
	Scopes  []policystore.Scope
	Token   string
	Expires time.Time
}

// cookies seals what browsers keep. All servers of a store have its key, which is read when it is first needed.
type cookies struct {
	store policystore.Credentials

	mu   sync.Mutex // guards aead
	aead cipher.AEAD
}

func (c *cookies) cipher(ctx context.Context) (cipher.AEAD, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aead != nil {
		return c.aead, nil
	}
	key, err := sharedKey(ctx, c.store)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	c.aead, err = cipher.NewGCM(block)
	return c.aead, err
}

// sharedKey returns the key of the store's sessions, and makes one if there is none.
func sharedKey(ctx context.Context, store policystore.Credentials) ([]byte, error) {
	const name = "session-key"
	for {
		found, err := store.Setting(ctx, name)
		if !errors.Is(err, policystore.ErrNotFound) {
			return found.Value, err
		}
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if _, err := store.SaveSetting(ctx, policystore.Setting{Name: name, Value: key}); err == nil {
			return key, nil
		} else if !errors.Is(err, policystore.ErrConflict) {
			return nil, err
		}
	}
}

// seal makes a cookie of a value. The name is authenticated, so that one cookie cannot stand for another.
func (c *cookies) seal(ctx context.Context, name string, value any, age time.Duration) (*http.Cookie, error) {
	aead, err := c.cipher(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed := expired(name) //nolint:gosec // expired has set them
	sealed.Value, sealed.MaxAge = base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, raw, []byte(name))), int(age/time.Second)
	return sealed, nil
}

// errCookie marks cookies that this server has not made.
var errCookie = errors.New("not a cookie of this server")

// open reads a sealed cookie. Its errors are errCookie, http.ErrNoCookie and those of the store.
func (c *cookies) open(r *http.Request, name string, value any) error {
	sealed, err := r.Cookie(name)
	if err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed.Value)
	if err != nil {
		return errCookie
	}
	aead, err := c.cipher(r.Context())
	if err != nil {
		return err
	}
	if len(raw) < aead.NonceSize() {
		return errCookie
	}
	plain, err := aead.Open(nil, raw[:aead.NonceSize()], raw[aead.NonceSize():], []byte(name))
	if err != nil || json.Unmarshal(plain, value) != nil {
		return errCookie
	}
	return nil
}

// session returns who has signed in with a browser, or nil. It fails if the store does not answer.
func (i *identity) session(r *http.Request) (*caller, error) {
	var s session
	err := i.cookies.open(r, sessionCookie, &s)
	switch {
	case errors.Is(err, http.ErrNoCookie), errors.Is(err, errCookie), err == nil && !time.Now().Before(s.Expires):
		return nil, nil
	case err != nil:
		return nil, err
	case s.Token != "":
		return i.tokenOf(r.Context(), s.Token)
	case i.people == nil:
		return nil, nil // OpenID Connect was switched off
	}
	return &caller{policystore.Token{Name: s.Name, Scopes: s.Scopes, Expires: s.Expires}, "person"}, nil
}

// signIn returns the session of a token.
func (i *identity) signIn(ctx context.Context, secret string) (*http.Cookie, *caller, error) {
	who, err := i.token(ctx, secret)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	s := session{Token: who.Hash, Expires: now.Add(sessionTime)}
	if !who.Expires.IsZero() && who.Expires.Before(s.Expires) {
		s.Expires = who.Expires
	}
	cookie, err := i.cookies.seal(ctx, sessionCookie, s, s.Expires.Sub(now))
	return cookie, who, err
}
