package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// take makes an answer the entry's good policy, or keeps the current one if the answer is equivalent.
func (r *Remote) take(e *entry, got response) error {
	p, warnings, err := r.parse(e.key, e.path, got.body)
	if err != nil {
		return r.getter.fail(http.MethodGet, e.path, policy.ErrPolicyFetchFailed, err)
	}
	if e.good != nil && e.good.current.Meta.Revision == p.Meta.Revision {
		e.good.etag = got.etag
	} else {
		e.good = newGood(p, got.etag)
		for _, w := range warnings {
			r.reports.logger.Warn("policy of a control plane", "key", e.key.String(), "warning", w.String())
		}
	}
	r.keep(e.path, string(got.body))
	return nil
}

func newGood(p *policy.Policy, etag string) *goodPolicy {
	lastKnown := *p // still compiled: only the source differs
	lastKnown.Meta.Source = policy.SourceLKG
	return &goodPolicy{current: p, lastKnown: &lastKnown, etag: etag}
}

// parse reads a policy as strictly as a document and compiles it.
func (r *Remote) parse(key policy.Key, path string, body []byte) (*policy.Policy, []policyfile.Fault, error) {
	switch {
	case !utf8.Valid(body):
		return nil, nil, errors.New("not UTF-8")
	case !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return nil, nil, errors.New("not a JSON object")
	case !json.Valid(body):
		return nil, nil, errors.New("not JSON")
	}
	return policyfile.ParsePolicy(path, body, key, policyfile.Options{
		Source: policy.SourceRemote, Limits: r.o.Limits, Declared: r.o.Declared,
	})
}

// recall returns the cached policy of a key, or nil.
func (r *Remote) recall(key policy.Key, path string) *goodPolicy {
	r.mu.Lock()
	body, found := r.bodies[path]
	r.mu.Unlock()
	if !found {
		return nil
	}
	p, _, err := r.parse(key, path, []byte(body))
	if err != nil { // the limits may have changed since
		err = fmt.Errorf("controlplane: cache %s: %s: %w", r.cache.path, key, err)
		r.reports.fault(aboutCache, err.Error(), err)
		return nil
	}
	return newGood(p, "")
}

// keep stores a body for the cache, or removes it if the body is empty.
func (r *Remote) keep(path, body string) {
	if r.cache == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.bodies[path] == body {
		return
	}
	if body == "" {
		delete(r.bodies, path)
	} else {
		r.trim()
		r.bodies[path] = body
	}
	if r.saving {
		return
	}
	r.saving = true
	r.group.Go(func() {
		timer := time.NewTimer(saveAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.ctx.Done():
		}
		r.save()
	})
}

// trim makes room for one more body by removing those of keys that are not in use. The caller holds mu.
func (r *Remote) trim() {
	if len(r.bodies) < r.o.MaxKeys {
		return
	}
	live := map[string]bool{}
	for _, e := range *r.entries.Load() {
		live[e.path] = true
	}
	maps.DeleteFunc(r.bodies, func(path, _ string) bool { return !live[path] })
}

func (r *Remote) save() {
	r.writing.Lock() // from the snapshot until it is written, so that an older snapshot cannot overwrite a newer one
	defer r.writing.Unlock()
	r.mu.Lock()
	r.saving = false
	bodies := maps.Clone(r.bodies)
	r.mu.Unlock()
	r.reports.cacheSaved(r.cache.save(bodies))
}
