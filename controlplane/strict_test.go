package controlplane

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

func TestP6ARemotePolicyIsReadAsStrictlyAsADocument(t *testing.T) {
	for body, want := range map[string]string{
		`{"retry": {"max_attempts": 2}, "retry": {}}`:                                  "retry: given twice",
		`{"retry": {"max_attempts": 2, "max_attempts": 3}}`:                            "retry.max_attempts: given twice",
		`{"retry": {"max_attempts": 0}}`:                                               "retry.max_attempts: 0 must be at least 1",
		`{"retry": {"max_attempts": null}}`:                                            "retry.max_attempts: null is not accepted",
		`{"retry": null}`:                                                              "retry: null is not accepted",
		`{"retry": {"retry_on": ["http_5x"]}}`:                                         `unknown class "http_5x"`,
		`{"retry": {"classifier": "htpp"}}`:                                            `unknown classifier "htpp"`,
		`{"retry": {"backoff": -1}}`:                                                   "retry.backoff: -1 must be at least 0",
		`{"retry": {"retry_on": ["eof"], "abort_on": ["eof"]}}`:                        `class "eof" is also in abort_on`,
		`{"category": "LAUNCH"}`:                                                       "category: unknown value",
		`{"hedge": {"enabled": true, "trigger": "p96"}}`:                               `unknown trigger "p96"`,
		`{"retry": {"max_attempts": 4,}}`:                                              "not JSON",
		`{"circuit": {"failures": 3}}`:                                                 "circuit.kind: missing",
		`{"retry": {"max_attempts": 0, "timeout": 0}, "hegde": {}, "retry": {}, "x": `: "not JSON",
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlane()
			p.serve(getUserPath, body)
			_, err := newRemote(t, p, RemoteOptions{}).Policy(t.Context(), getUser)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", body, err)
			}
		})
	}
}

func TestP6NamesThatTheProgramSuppliesAreDeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.serve(getUserPath, `{"category": "RETRY_KV_GET", "retry": {"max_attempts": 4, "backoff_cap": "90s", "retry_on": ["quota"], "classifier": "own", "budget": {"name": "code"}}}`)
		r := newRemote(t, p, RemoteOptions{Declared: policyfile.Declared{Classes: []policy.Class{"quota"}, Classifiers: []string{"own"}}})
		got := ask(t, r, getUser, 4, policy.SourceRemote, nil)
		if got.Category != policy.KVGet || got.Retry.Budget.Cost != 1 || len(got.Meta.Clamped) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRemoteSaysThatAnAnswerIsNoRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane()
		p.set(func(p *plane) { p.status = http.StatusNotModified })
		_, err := newRemote(t, p, RemoteOptions{}).Policy(t.Context(), getUser)
		if err == nil || strings.Contains(err.Error(), "redirect") || !strings.Contains(err.Error(), "304 Not Modified to a request that named no ETag") {
			t.Errorf("%v", err)
		}
	})
}
