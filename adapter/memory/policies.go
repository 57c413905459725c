package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policystore"
)

// Policies is a policystore.Store. It is safe for concurrent use. Its content is lost when the process ends: use it for tests and
// demonstrations.
type Policies struct {
	bell wait.Bell

	door      // guards the fields below
	documents map[string]*document
	clients   map[policystore.ClientKey]policystore.Client
	evidence  map[evidenceKey]evidence
	leaders   map[string]leader // by task
	tokens    map[string]policystore.Token
	settings  map[string]policystore.Setting
}

// document is a document in JSON, which makes every read a copy, and its revisions by number.
type document struct {
	version   int64
	encoded   []byte
	revisions []policystore.Revision
}

type evidence struct {
	policystore.Evidence
	batches map[string]int64 // the last of each source
}

type evidenceKey struct {
	rollout  string
	step     int
	revision int64
}

// leader is who leads a task until a time.
type leader struct {
	server string
	until  time.Time
}

var _ policystore.Store = (*Policies)(nil)

func newPolicies() *Policies {
	return &Policies{
		documents: map[string]*document{}, clients: map[policystore.ClientKey]policystore.Client{}, evidence: map[evidenceKey]evidence{},
		leaders: map[string]leader{}, tokens: map[string]policystore.Token{}, settings: map[string]policystore.Setting{},
	}
}

// enter locks the store.
func (s *Policies) enter(ctx context.Context) error {
	return s.lock(ctx, policystore.ErrClosed)
}

func (s *Policies) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.bell.Close()
}

// Documents implements policystore.Documents.
func (s *Policies) Documents(ctx context.Context, after string, limit int) ([]policystore.Document, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []policystore.Document
	for _, name := range sorted(maps.Keys(s.documents), after, strings.Compare, limit) {
		d, err := s.documents[name].decode()
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// Document implements policystore.Documents.
func (s *Policies) Document(ctx context.Context, name string) (policystore.Document, error) {
	if err := s.enter(ctx); err != nil {
		return policystore.Document{}, err
	}
	defer s.mu.Unlock()
	d := s.documents[name]
	if d == nil {
		return policystore.Document{}, fmt.Errorf("%w: document %q", policystore.ErrNotFound, name)
	}
	return d.decode()
}

func (d *document) decode() (out policystore.Document, err error) {
	return out, json.Unmarshal(d.encoded, &out)
}

// Save implements policystore.Documents.
func (s *Policies) Save(ctx context.Context, d policystore.Document, add ...policystore.Revision) (policystore.Document, error) {
	if err := s.enter(ctx); err != nil {
		return d, err
	}
	defer s.mu.Unlock()
	stored := s.documents[d.Name]
	if stored == nil {
		stored = &document{}
	}
	revisions := slices.Clone(stored.revisions)
	for _, r := range add {
		if r.Document != d.Name || find(revisions, r.Number) != nil {
			return d, fmt.Errorf("%w: revision %d of document %q", policystore.ErrConflict, r.Number, d.Name)
		}
		r.Body, r.Created = bytes.Clone(r.Body), policystore.Stamp(r.Created)
		revisions = append(revisions, r)
	}
	if stored.version != d.Version {
		return d, fmt.Errorf("%w: document %q", policystore.ErrConflict, d.Name)
	}
	d.Version++
	d.Updated = policystore.Stamp(d.Updated)
	encoded, err := json.Marshal(d)
	if err != nil {
		return d, fmt.Errorf("memory: document %q: %w", d.Name, err)
	}
	slices.SortFunc(revisions, func(a, b policystore.Revision) int { return cmp.Compare(a.Number, b.Number) })
	s.documents[d.Name] = &document{version: d.Version, encoded: encoded, revisions: revisions}
	s.bell.Ring()
	return d, nil
}

func find(list []policystore.Revision, number int64) *policystore.Revision {
	i := slices.IndexFunc(list, func(r policystore.Revision) bool { return r.Number == number })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// Revision implements policystore.Documents.
func (s *Policies) Revision(ctx context.Context, name string, number int64) (policystore.Revision, error) {
	if err := s.enter(ctx); err != nil {
		return policystore.Revision{}, err
	}
	defer s.mu.Unlock()
	if d := s.documents[name]; d != nil {
		if r := find(d.revisions, number); r != nil {
			out := *r
			out.Body = bytes.Clone(r.Body)
			return out, nil
		}
	}
	return policystore.Revision{}, fmt.Errorf("%w: revision %d of document %q", policystore.ErrNotFound, number, name)
}

// Revisions implements policystore.Documents.
func (s *Policies) Revisions(ctx context.Context, name string, below int64, limit int) ([]policystore.Revision, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	d := s.documents[name]
	if d == nil {
		return nil, nil
	}
	var list []policystore.Revision
	for _, r := range slices.Backward(d.revisions) {
		if (below == 0 || r.Number < below) && len(list) < limit {
			r.Body = nil
			list = append(list, r)
		}
	}
	return list, nil
}

// Watch implements policystore.Documents.
func (s *Policies) Watch(ctx context.Context) (<-chan struct{}, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.bell.Listen(ctx), nil
}

// SaveClients implements policystore.Clients.
func (s *Policies) SaveClients(ctx context.Context, list []policystore.Client) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, c := range list {
		c = copyClient(c)
		c.LastSeen = policystore.Stamp(c.LastSeen)
		old, ok := s.clients[c.Key()]
		switch {
		case c.Reported == nil:
			c.Reported = old.Reported
		case c.Reported.Empty():
			c.Reported = nil
		}
		if !ok || !c.LastSeen.Before(old.LastSeen) {
			s.clients[c.Key()] = c
		}
	}
	return nil
}

func copyClient(c policystore.Client) policystore.Client {
	c.Labels, c.Reported = maps.Clone(c.Labels), c.Reported.Stamped()
	return c
}

// Clients implements policystore.Clients.
func (s *Policies) Clients(ctx context.Context, document string, after policystore.ClientKey, limit int) ([]policystore.Client, error) {
	return s.selectClients(ctx, after, limit, func(c *policystore.Client) bool { return document == "" || c.Document == document })
}

// ReportingClients implements policystore.Clients.
func (s *Policies) ReportingClients(ctx context.Context, since time.Time, after policystore.ClientKey, limit int) ([]policystore.Client, error) {
	return s.selectClients(ctx, after, limit, func(c *policystore.Client) bool {
		return c.Reported != nil && !c.LastSeen.Before(since)
	})
}

func (s *Policies) selectClients(ctx context.Context, after policystore.ClientKey, limit int, selects func(*policystore.Client) bool) ([]policystore.Client, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	keys := func(yield func(policystore.ClientKey) bool) {
		for k, c := range s.clients {
			if selects(&c) && !yield(k) {
				return
			}
		}
	}
	found := sorted(keys, after, compareClients, limit)
	return lists.Map(found, func(k policystore.ClientKey) policystore.Client { return copyClient(s.clients[k]) }), nil
}

func compareClients(a, b policystore.ClientKey) int {
	return cmp.Or(strings.Compare(a.Document, b.Document), strings.Compare(a.ID, b.ID))
}

// CountClients implements policystore.Clients.
func (s *Policies) CountClients(ctx context.Context, document string, since time.Time) ([]policystore.ClientCount, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	counts := map[policystore.ClientCount]int64{}
	for _, c := range s.clients {
		if c.Document == document && !c.LastSeen.Before(since) {
			counts[policystore.ClientCount{Desired: c.Desired, Applied: c.Applied, Refused: c.Refused}]++
		}
	}
	var list []policystore.ClientCount
	for c, n := range counts {
		c.Clients = n
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b policystore.ClientCount) int {
		return cmp.Or(cmp.Compare(a.Desired, b.Desired), cmp.Compare(a.Applied, b.Applied), cmp.Compare(a.Refused, b.Refused))
	})
	return list, nil
}

// RemoveClients implements policystore.Clients.
func (s *Policies) RemoveClients(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	n := 0
	for k, c := range s.clients {
		if n < limit && c.LastSeen.Before(before) {
			delete(s.clients, k)
			n++
		}
	}
	return n, nil
}

// AddEvidence implements policystore.Rollouts.
func (s *Policies) AddEvidence(ctx context.Context, list []policystore.Evidence) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, e := range list {
		k := evidenceKey{e.Rollout, e.Step, e.Revision}
		sum := s.evidence[k]
		if sum.batches == nil {
			sum.Rollout, sum.Step, sum.Revision, sum.batches = e.Rollout, e.Step, e.Revision, map[string]int64{}
		}
		if e.Source == "" || e.Batch > sum.batches[e.Source] {
			sum.batches[e.Source] = e.Batch
			sum.Counters.Add(e.Counters)
		}
		s.evidence[k] = sum
	}
	return nil
}

// Evidence implements policystore.Rollouts.
func (s *Policies) Evidence(ctx context.Context, rolloutID string) ([]policystore.Evidence, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var list []policystore.Evidence
	for k, e := range s.evidence {
		if k.rollout == rolloutID {
			counters := policystore.Evidence{Rollout: e.Rollout, Step: e.Step, Revision: e.Revision}
			counters.Counters.Add(e.Counters) // a copy that shares nothing
			list = append(list, counters)
		}
	}
	slices.SortFunc(list, func(a, b policystore.Evidence) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Revision, b.Revision))
	})
	return list, nil
}

// Lead implements policystore.Rollouts.
func (s *Policies) Lead(ctx context.Context, task, server string, ttl time.Duration) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	now := time.Now()
	if l, ok := s.leaders[task]; ok && l.server != server && now.Before(l.until) {
		return false, nil
	}
	s.leaders[task] = leader{server, now.Add(ttl)}
	return true, nil
}

// AddToken implements policystore.Credentials.
func (s *Policies) AddToken(ctx context.Context, t policystore.Token) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, other := range s.tokens {
		if other.ID == t.ID || other.Name == t.Name || other.Hash == t.Hash {
			return fmt.Errorf("%w: token %q", policystore.ErrConflict, t.Name)
		}
	}
	t.Created, t.Expires, t.Revoked = policystore.Stamp(t.Created), policystore.Stamp(t.Expires), policystore.Stamp(t.Revoked)
	s.tokens[t.ID] = copyToken(t)
	return nil
}

func copyToken(t policystore.Token) policystore.Token {
	t.Scopes, t.Queues, t.Documents = slices.Clone(t.Scopes), slices.Clone(t.Queues), slices.Clone(t.Documents)
	return t
}

// Token implements policystore.Credentials.
func (s *Policies) Token(ctx context.Context, hash string) (policystore.Token, error) {
	if err := s.enter(ctx); err != nil {
		return policystore.Token{}, err
	}
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		if t.Hash == hash {
			return copyToken(t), nil
		}
	}
	return policystore.Token{}, fmt.Errorf("%w: token", policystore.ErrNotFound)
}

// Tokens implements policystore.Credentials.
func (s *Policies) Tokens(ctx context.Context, after string, limit int) ([]policystore.Token, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	found := sorted(maps.Keys(s.tokens), after, strings.Compare, limit)
	return lists.Map(found, func(id string) policystore.Token { return copyToken(s.tokens[id]) }), nil
}

// RevokeToken implements policystore.Credentials.
func (s *Policies) RevokeToken(ctx context.Context, id string, at time.Time) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	if !ok {
		return fmt.Errorf("%w: token %q", policystore.ErrNotFound, id)
	}
	if t.Revoked.IsZero() {
		t.Revoked = policystore.Stamp(at)
		s.tokens[id] = t
	}
	return nil
}

// Setting implements policystore.Credentials.
func (s *Policies) Setting(ctx context.Context, name string) (policystore.Setting, error) {
	if err := s.enter(ctx); err != nil {
		return policystore.Setting{}, err
	}
	defer s.mu.Unlock()
	v, ok := s.settings[name]
	if !ok {
		return policystore.Setting{}, fmt.Errorf("%w: setting %q", policystore.ErrNotFound, name)
	}
	v.Value = bytes.Clone(v.Value)
	return v, nil
}

// SaveSetting implements policystore.Credentials.
func (s *Policies) SaveSetting(ctx context.Context, v policystore.Setting) (policystore.Setting, error) {
	if err := s.enter(ctx); err != nil {
		return v, err
	}
	defer s.mu.Unlock()
	if s.settings[v.Name].Version != v.Version {
		return v, fmt.Errorf("%w: setting %q", policystore.ErrConflict, v.Name)
	}
	v.Version++
	s.settings[v.Name] = policystore.Setting{Name: v.Name, Version: v.Version, Value: bytes.Clone(v.Value)}
	return v, nil
}

// sorted returns the keys after a key, sorted, at most limit.
func sorted[K any](keys func(func(K) bool), after K, compare func(a, b K) int, limit int) []K {
	var list []K
	for k := range keys {
		if compare(k, after) > 0 {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, compare)
	return list[:min(limit, len(list))]
}
