package tenethttp_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"pgregory.net/rapid"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestKeyNamesTheRoute(t *testing.T) {
	pattern := func(p string) func(*http.Request) { return func(r *http.Request) { r.Pattern = p } }
	tests := map[string]struct {
		method, url string
		edit        func(*http.Request)
		want        string
	}{
		"plain":                        {"GET", "http://API.example.com/users", nil, "GET api.example.com/users"},
		"no method":                    {"", "http://x/users", nil, "GET x/users"},
		"the query":                    {"GET", "http://x/users?id=7", nil, "GET x/users"},
		"a number":                     {"DELETE", "http://x/users/42/orders/7", nil, "DELETE x/users/{id}/orders/{id}"},
		"a version is kept":            {"GET", "http://x/v1/users", nil, "GET x/v1/users"},
		"a date":                       {"GET", "http://x/reports/2026-01-02", nil, "GET x/reports/{id}"},
		"a UUID":                       {"GET", "http://x/u/0190b1de-7c5e-7b3a-9f4e-0123456789ab", nil, "GET x/u/{id}"},
		"hexadecimal":                  {"GET", "http://x/blob/deadbeef01", nil, "GET x/blob/{id}"},
		"a word of the letters a to f": {"GET", "http://x/facade", nil, "GET x/facade"},
		"base64":                       {"GET", "http://x/t/dGhpc2lzNDJ0b2tlbg_x1", nil, "GET x/t/{id}"},
		"an address":                   {"GET", "http://x/u/a@b.c", nil, "GET x/u/{id}"},
		"a long word":                  {"GET", "http://x/a-very-long-segment-that-nobody-writes-as-a-route", nil, "GET x/{id}"},
		"a pattern":                    {"POST", "http://x/users/7", pattern("POST /users/{user}"), "POST x/users/{user}"},
		"without method":               {"POST", "http://x/users/7", pattern("/users/"), "POST x/users/"},
		"with a host":                  {"POST", "http://x/users/7", pattern("h.example.com/users/"), "POST h.example.com/users/"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := request(t, "GET", tt.url, nil)
			req.Method = tt.method
			if tt.edit != nil {
				tt.edit(req)
			}
			if got := tenethttp.NewKeyFunc(10)(req); got != policy.ParseKey(tt.want) {
				t.Errorf("key %q, want %q", got, tt.want)
			}
		})
	}
}

func TestP2KeysAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const max = 8
		key := tenethttp.NewKeyFunc(max)
		seen := map[policy.Key]bool{}
		for range 100 {
			host := rapid.StringMatching(`[a-z]{1,2}\.com`).Draw(t, "host")
			path := rapid.StringMatching(`(/[a-z]{1,2}){0,2}`).Draw(t, "path")
			req, err := http.NewRequest("GET", "http://"+host+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			k := key(req)
			if k != key(req) {
				t.Fatalf("the key of one request changed to %s", key(req))
			}
			if k != policy.ParseKey(k.String()) {
				t.Fatalf("a document cannot name the key %#v", k)
			}
			seen[k] = true
		}
		if len(seen) > 2*max+1 {
			t.Fatalf("%d keys, want at most %d", len(seen), 2*max+1)
		}
	})
}

func TestP2LaterRoutesShareAKeyPerHost(t *testing.T) {
	key := tenethttp.NewKeyFunc(2)
	for i, want := range []string{"GET a/r0", "GET a/r1", "a/other", "a/other"} {
		if got := key(request(t, "GET", fmt.Sprintf("http://a/r%d", i), nil)); got.String() != want {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
	}
	for host, want := range map[string]string{"b": "b/other"} {
		if got := key(request(t, "GET", "http://"+host+"/", nil)); got.String() != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	if got := key(request(t, "GET", "http://c/", nil)); got.String() != "other" {
		t.Errorf("key %q, want other", got)
	}
}

func TestTransportUsesItsKeys(t *testing.T) {
	got := map[policy.Key]int{}
	o := options(t, fixed())
	o.Observer = observed(got)
	e := retry.NewExecutor(o)
	base := roundTrip(func(*http.Request) (*http.Response, error) { return answer(200, ""), nil })
	own := &tenethttp.Transport{Base: base, Executor: e, Key: func(*http.Request) policy.Key { return key }}
	zero := &tenethttp.Transport{Base: base, Executor: e}
	var wg sync.WaitGroup
	for _, tr := range []*tenethttp.Transport{own, zero, zero} {
		wg.Go(func() {
			resp, err := tr.RoundTrip(request(t, "GET", "http://x/users/1", nil))
			if err == nil {
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	if got[key] != 1 || got[policy.ParseKey("GET x/users/{id}")] != 2 || len(got) != 2 {
		t.Errorf("keys in use: %v", got)
	}
}
