package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

// caller is whoever makes a request, with what it may do.
type caller struct {
	policystore.Token        // of a person or an unknown caller: only name, scopes and bounds
	kind              string // token, person, user or local
}

type callerKey struct{}

// callerOf returns who makes the request of a context.
func callerOf(ctx context.Context) *caller {
	who, _ := ctx.Value(callerKey{}).(*caller)
	if who == nil {
		return &caller{kind: "nobody"}
	}
	return who
}

// actor names the caller in the audit log.
func (c *caller) actor() string { return c.kind + ":" + c.Name }

// tenant separates the idempotency keys of callers.
func (c *caller) tenant() string {
	sum := sha256.Sum256([]byte(c.actor()))
	return hex.EncodeToString(sum[:16])
}

// within reports whether a name is one of those that a scope is bound to. Without bounds all are.
func within(name string, bounds []string) bool {
	return len(bounds) == 0 || slices.ContainsFunc(bounds, func(b string) bool { return boundValue(b).Matches(name) })
}

func boundValue(bound string) filter.Value {
	prefix, cut := strings.CutSuffix(bound, "*")
	return filter.Value{Text: prefix, Prefix: cut}
}

// mayQueue refuses a queue that the caller is not bound to.
func (c *caller) mayQueue(queue string) error {
	if within(queue, c.Queues) {
		return nil
	}
	return boundProblem("queues", c.Queues)
}

// mayDocument refuses a document that the caller is not bound to.
func (c *caller) mayDocument(name string) error {
	if within(name, c.Documents) {
		return nil
	}
	return boundProblem("documents", c.Documents)
}

// unbound refuses callers that are bound to queues or documents, for what cannot be divided by them.
func (c *caller) unbound() error {
	switch {
	case len(c.Queues) > 0:
		return boundProblem("queues", c.Queues)
	case len(c.Documents) > 0:
		return boundProblem("documents", c.Documents)
	}
	return nil
}

func boundProblem(kind string, bounds []string) error {
	return refusal(http.StatusForbidden, "this token is bound to the "+kind+" "+strings.Join(bounds, ", "), "use a token that is bound to others, or to none")
}

// filter narrows a filter to the queues that the caller is bound to.
func (c *caller) filter(f job.Filter) (job.Filter, error) {
	if len(c.Queues) == 0 || slices.Contains(c.Queues, "*") {
		return f, nil
	}
	if f.Queue != "" {
		return f, c.mayQueue(f.Queue)
	}
	bound := filter.Term{Field: job.FieldQueue, Values: lists.Map(c.Queues, boundValue)}
	f.Terms = append(slices.Clone(f.Terms), bound)
	return f, nil
}

// tokenPrefix begins every secret, so that scanners for leaked secrets find it.
const tokenPrefix = "tenet_"

// NewToken makes a token and its secret, which is 32 random bytes. Only the hash of the secret is stored.
func NewToken(t policystore.Token) (policystore.Token, string) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	secret := tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	t.ID, t.Hash, t.Created = uuidv7.Next(), hashOf(secret), job.Stamp(time.Now())
	t.Expires = job.Stamp(t.Expires)
	return t, secret
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// tokenTime is how long a server trusts what it has read about a token: the longest time for which a revoked one works.
const tokenTime = 5 * time.Second

const maxTokens = 10_000 // that are remembered

// identity finds out who makes a request.
type identity struct {
	store    policystore.Credentials
	cookies  cookies
	own      func(*http.Request) (*Caller, error) // may be nil
	people   *people                              // nil without OIDC
	log      *slog.Logger
	limits   *limiter
	insecure bool
	known    atomic.Bool // there is a token, or another way to say who one is

	mu     sync.Mutex
	tokens map[string]cachedToken // by hash; the tokens that were read, even if they must be read again
}

type cachedToken struct {
	caller *caller
	until  time.Time
}

func newIdentity(ctx context.Context, o Options, limits *limiter) (*identity, error) {
	i := &identity{
		store: o.Policies, cookies: cookies{store: o.Policies}, own: o.Authenticate, log: o.Logger, limits: limits, insecure: o.Insecure,
		tokens: map[string]cachedToken{},
	}
	i.known.Store(o.OIDC != nil || o.Authenticate != nil)
	if o.OIDC == nil {
		return i, nil
	}
	var err error
	i.people, err = newPeople(ctx, o.OIDC)
	return i, err
}

// Caller is whoever makes a request, as Options.Authenticate says.
type Caller struct {
	// Name stands in the audit log, as user:NAME. Required.
	Name   string
	Scopes []policystore.Scope
	// Queues and Documents bound the scopes, as those of a token do. Empty means all.
	Queues, Documents []string
}

// methods lists how one can sign in with a browser.
func (i *identity) methods() []string {
	if i.people != nil {
		return []string{"token", "oidc"}
	}
	return []string{"token"}
}

// authenticated asks the program that the server is part of. It returns nil if that does not know the caller.
func (i *identity) authenticated(r *http.Request) (*caller, error) {
	if i.own == nil {
		return nil, nil
	}
	who, err := i.own(r)
	if err == nil && who == nil {
		return nil, nil
	}
	if err == nil && who.Name == "" {
		err = errors.New("the caller has no name")
	}
	if err != nil {
		i.log.WarnContext(r.Context(), "a caller was refused by Options.Authenticate", "error", err)
		return nil, refusal(http.StatusUnauthorized, "the program that this server is part of does not accept you", "sign in to it again")
	}
	return &caller{policystore.Token{Name: who.Name, Scopes: who.Scopes, Queues: who.Queues, Documents: who.Documents}, "user"}, nil
}

// configured reports whether callers can say who they are. Until they can, everybody may do everything.
func (i *identity) configured(ctx context.Context) (bool, error) {
	if i.known.Load() {
		return true, nil
	}
	list, err := i.store.Tokens(ctx, "", 1)
	if err != nil {
		return false, err
	}
	if len(list) > 0 {
		i.known.Store(true)
	}
	return len(list) > 0, nil
}

// caller returns who makes a request. A refusal returns nil.
func (i *identity) caller(r *http.Request) (*caller, error) {
	if who, err := i.authenticated(r); who != nil || err != nil {
		return who, err
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		secret = strings.TrimSpace(secret)
		if err := i.stranger(r, secret); err != nil {
			return nil, err
		}
		return i.token(r.Context(), secret)
	}
	if who, err := i.session(r); who != nil || err != nil {
		return who, err
	}
	known, err := i.configured(r.Context())
	switch {
	case err != nil:
		return nil, err
	case known:
		return nil, refusal(http.StatusUnauthorized, "this server does not know you",
			"send a token (--token or TENET_TOKEN of a command, the header Authorization: Bearer … of a request); tenet token create makes one. A browser signs in by one of GET /v1/session/methods")
	case !i.insecure && (!loopback(r.Host) || fromElsewhere(r)):
		// Another site's name that leads to this machine (DNS rebinding) is not loopback. A program that mounts the handler may
		// listen on addresses that other machines reach, and these can send any Host.
		return nil, refusal(http.StatusForbidden, "a server without tokens answers only to this machine", "make a token first")
	}
	return &caller{policystore.Token{Name: "anyone", Scopes: []policystore.Scope{policystore.ScopeAdmin}}, "local"}, nil
}

// stranger refuses a token that this server has not read before, without asking the store, while the address that it comes from is over
// its limit. It never refuses tokens that were read before, so that nobody at the same address can keep them out.
func (i *identity) stranger(r *http.Request, secret string) error {
	i.mu.Lock()
	_, known := i.tokens[hashOf(secret)]
	i.mu.Unlock()
	if known || r.Context().Value(localKey{}) != nil {
		return nil
	}
	return i.limits.look("address:" + hostOf(r.RemoteAddr))
}

// token finds the token of a secret.
func (i *identity) token(ctx context.Context, secret string) (*caller, error) {
	if !strings.HasPrefix(secret, tokenPrefix) {
		return nil, refusedToken()
	}
	return i.tokenOf(ctx, hashOf(secret))
}

func refusedToken() error {
	return refusal(http.StatusUnauthorized, "the token is not valid, has expired, or was revoked", "tenet token create makes a new one")
}

// tokenOf finds the token with a hash.
func (i *identity) tokenOf(ctx context.Context, hash string) (*caller, error) {
	now := time.Now()
	who := i.cached(hash, now)
	if who == nil {
		t, err := i.store.Token(ctx, hash)
		switch {
		case errors.Is(err, policystore.ErrNotFound):
			i.lose(hash)
			return nil, refusedToken()
		case err != nil:
			return nil, err
		}
		who = &caller{t, "token"}
		i.remember(hash, cachedToken{who, now.Add(tokenTime)})
	}
	if !who.Valid(now) {
		return nil, refusedToken()
	}
	return who, nil
}

func (i *identity) cached(hash string, now time.Time) *caller {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.tokens[hash]; now.Before(c.until) {
		return c.caller
	}
	return nil
}

func (i *identity) remember(hash string, c cachedToken) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.tokens) >= maxTokens {
		clear(i.tokens)
	}
	i.tokens[hash] = c
}

// lose drops a token that the store no longer has.
func (i *identity) lose(hash string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.tokens, hash)
}

// readAgain has every token read again at its next use, after one was revoked.
func (i *identity) readAgain() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for hash, c := range i.tokens {
		c.until = time.Time{}
		i.tokens[hash] = c
	}
}
