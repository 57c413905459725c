package ui

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// request is a request of a browser, with the API as its caller may use it.
type request struct {
	*http.Request
	ui    *UI
	query url.Values // of the page, which is not that of the request in a live update
	who   api.Caller // valid after identify
}

func (u *UI) request(r *http.Request) *request {
	return &request{Request: r, ui: u, query: r.URL.Query()}
}

// PathValue returns the name in a segment that href has made.
func (r *request) PathValue(name string) string {
	value := r.Request.PathValue(name)
	if ofDots(value) {
		return strings.TrimPrefix(value, "~")
	}
	return value
}

// context carries the browser's request to the transport.
func (r *request) context() context.Context {
	return context.WithValue(r.Context(), browserKey{}, r.Request)
}

// get reads from the API.
func (r *request) get(path string, query url.Values, out any) error {
	return r.do(client.Call{Method: http.MethodGet, Path: path, Query: query}, out)
}

// ask sends a POST of the API that changes nothing.
func (r *request) ask(path string, body, out any) error {
	return r.do(client.Call{Method: http.MethodPost, Path: path, Body: body}, out)
}

// change makes a change of the API once, under the key of the preview's form.
func (r *request) change(call client.Call, out any) error {
	call.Once, call.Key = call.IfMatch == "", r.PostFormValue("key")
	return r.do(call, out)
}

func (r *request) do(call client.Call, out any) error {
	return r.ui.client.Do(r.context(), call, out)
}

// next leads to the next page of a list, with the other parameters of this one; empty if this is the last page.
func (r *request) next(path string, cursor api.Cursor, pairs ...string) string {
	if cursor == "" {
		return ""
	}
	return r.ui.href(path, append(pairs, "cursor", string(cursor))...)
}

// answered reports whether an error is an answer of the API with one of some statuses.
func answered(err error, statuses ...int) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && slices.Contains(statuses, p.Status)
}

// listed returns the item of a list for which is returns true, or a problem that says what is missing.
func listed[T any](list []T, missing string, is func(T) bool) (item T, err error) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], nil
	}
	return item, &client.Problem{Status: http.StatusNotFound, Title: "Not found", Detail: missing, Remedy: "Choose one from the list"}
}

const sessionPath = "/v1/session"

// identify finds out who makes the request.
func (r *request) identify() error { return r.get(sessionPath, nil, &r.who) }

// newClient makes a client of the API in the same process.
func newClient(s *server.Server) (*client.Client, error) {
	return client.New(client.Options{URL: "http://localhost", HTTP: &http.Client{Transport: transport{s.Local(), s.Handler()}}, MaxAttempts: 1})
}

type browserKey struct{}

// cookiesKey is where the transport leaves the cookies of an answer.
type cookiesKey struct{}

// transport hands requests to a handler in the same process, with the credentials of the browser's request in their context.
// Finding out who makes a request counts against the caller's rate; what a page asks for after that does not.
type transport struct{ api, bounded http.Handler }

// notForwarded are the headers of a browser's request that describe its body, its connection or what it has cached.
var notForwarded = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match",
	"Last-Event-ID", "Origin", "Range", "Referer", "Transfer-Encoding", "Upgrade",
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	browser, _ := r.Context().Value(browserKey{}).(*http.Request)
	call := r.Clone(r.Context())
	if browser != nil {
		for name, values := range browser.Header {
			if call.Header[name] == nil && !strings.HasPrefix(name, "Hx-") && !strings.HasPrefix(name, "Sec-") {
				call.Header[name] = values
			}
		}
		for _, name := range notForwarded {
			if r.Header.Get(name) == "" {
				call.Header.Del(name)
			}
		}
		call.Host, call.RemoteAddr, call.TLS = browser.Host, browser.RemoteAddr, browser.TLS
	}
	if call.Body == nil {
		call.Body = http.NoBody
	}
	call.RequestURI = call.URL.RequestURI()
	answer := httptest.NewRecorder()
	if call.URL.Path == sessionPath {
		t.bounded.ServeHTTP(answer, call)
	} else {
		t.api.ServeHTTP(answer, call)
	}
	if cookies, ok := r.Context().Value(cookiesKey{}).(*[]string); ok {
		*cookies = answer.Header().Values("Set-Cookie")
	}
	return answer.Result(), nil
}
