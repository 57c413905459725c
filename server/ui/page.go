package ui

import (
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"

	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
	"github.com/tenetdev/tenet/server/internal/params"
)

// page is a page of the UI.
type page struct {
	path  string // under the prefix, as a pattern of ServeMux; "{$}" is the first page
	nav   string // entry of the navigation that is current
	title string // of the browser's window; the data may have a Title of its own
	file  string // template in templates/, without .html; it defines "content"
	// still is set for pages that do not follow changes.
	still bool
	// moving is set for pages that change by themselves, such as those with charts, or by what the server's pulse does not
	// show: they are rendered once a second while somebody watches them. Others are rendered with the pulse.
	moving bool
	// load reads the page's data from the API.
	load func(*request) (any, error)
}

// titled is data that names its page.
type titled interface{ Title() string }

// still is data that does not follow changes if Still says so.
type still interface{ Still() bool }

// view is what the layout shows.
type view struct {
	Title   string
	Nav     []navGroup
	Who     api.Caller
	Data    any
	Live    string // address of the page's updates; empty for none
	Notice  string // of the last action
	Return  string // the page's own path and query, for actions that lead back
	Nonce   string // of scripts and styles
	Problem *client.Problem
	Status  int // of the answer; 0 is 200
}

// navGroup is a part of the navigation.
type navGroup struct {
	Name    string
	Entries []navEntry
}

type navEntry struct {
	Name, Path string
	Current    bool
}

// navigation lists the pages that can be reached from everywhere.
func (u *UI) navigation(current string) []navGroup {
	entry := func(name, path string) navEntry { return navEntry{name, u.href(path), name == current} }
	return []navGroup{
		{"", []navEntry{entry("Overview", "")}},
		{"Work", []navEntry{entry("Queues", "queues"), entry("Jobs", "jobs"), entry("Flows", "flows"), entry("Dead letters", "dlq"), entry("Redrives", "redrives"), entry("Periodic jobs", "periodic"), entry("Limits", "limits"), entry("Workers", "workers"), entry("Pipelines", "pipelines")}},
		{"Policies", []navEntry{entry("Policies", "policies"), entry("Clients", "clients"), entry("Budgets and breakers", "mechanisms")}},
		{"Records", []navEntry{entry("Idempotency", "idempotency"), entry("Audit", "audit"), entry("Operators' actions", "operators")}},
		{"Access", []navEntry{entry("Tokens", "tokens")}},
	}
}

// href returns a path under the prefix with a query of names and values.
func (u *UI) href(path string, pairs ...string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if ofDots(s) {
			segments[i] = "~" + s
		}
	}
	target := u.options.Prefix + "/" + strings.Join(segments, "/")
	if query := params.Of(pairs...); len(query) > 0 {
		target += "?" + query.Encode()
	}
	return target
}

// ofDots reports whether a segment of a path is . or .., which browsers take for a step also when it is escaped, or one of these after
// tildes. In addresses of pages such a segment has one tilde more.
func ofDots(segment string) bool {
	dots := strings.TrimLeft(segment, "~")
	return dots == "." || dots == ".."
}

var errNoPage = &client.Problem{Status: http.StatusNotFound, Title: "Not found", Detail: "There is no page at this address.", Remedy: "Use the navigation, or search"}

// servePage answers with a page.
func (u *UI) servePage(w http.ResponseWriter, q *request, p *page) {
	data, err := p.load(q)
	if err != nil {
		u.fail(w, q, err)
		return
	}
	v := view{Title: p.title, Nav: u.navigation(p.nav), Who: q.who, Data: data, Notice: takeNotice(w, q.Request, u.options.Prefix), Return: q.URL.RequestURI()}
	if t, ok := data.(titled); ok {
		v.Title = t.Title()
	}
	fixed, ok := data.(still)
	if !p.still && (!ok || !fixed.Still()) {
		v.Live = u.href("live", "page", q.URL.RequestURI())
	}
	u.render(w, q.Request, p.file, v)
}

// content renders a template without the layout, for what a script replaces.
func (u *UI) content(file string, v view) ([]byte, error) {
	return u.execute(file, "content", v)
}

// renderContent answers with a template without the layout.
func (u *UI) renderContent(w http.ResponseWriter, q *request, file string, v view) {
	html, err := u.content(file, v)
	if err != nil {
		u.fail(w, q, err)
		return
	}
	u.write(w, q.Request, reply{http.StatusOK, "", html})
}

// render answers with a template in the layout.
func (u *UI) render(w http.ResponseWriter, r *http.Request, file string, v view) {
	v.Nonce = rand.Text()
	html, err := u.execute(file, "layout", v)
	if err != nil {
		u.options.Logger.Error("a page of the UI could not be rendered", "page", file, "error", err)
		http.Error(w, "This page could not be shown: the server's log says why.", http.StatusInternalServerError)
		return
	}
	u.write(w, r, reply{cmp.Or(v.Status, http.StatusOK), v.Nonce, html})
}

// reply is an answer of HTML, whose scripts and styles carry the nonce.
type reply struct {
	status int
	nonce  string
	html   []byte
}

// write answers with HTML, compressed for browsers that take it.
func (u *UI) write(w http.ResponseWriter, r *http.Request, a reply) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentPolicy(a.nonce))
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(a.status)
		_, _ = w.Write(a.html) // the browser may be gone
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(a.status)
	z := gzip.NewWriter(w)
	_, _ = z.Write(a.html) // the browser may be gone
	_ = z.Close()
}

// contentPolicy allows scripts and styles that carry the nonce, and nothing from elsewhere.
func contentPolicy(nonce string) string {
	return "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce + "'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// asksForContent reports whether a script asks for the content of a page alone, for a dialog. One that replaces what the page shows selects
// that from a whole page.
func asksForContent(r *request) bool {
	return r.Header.Get("Hx-Request") != "" && r.Header.Get("Hx-Target") != "content"
}

// fail answers with a problem: with the page to sign in if the caller is not known.
func (u *UI) fail(w http.ResponseWriter, r *request, err error) {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok {
		u.options.Logger.ErrorContext(r.Context(), "a page of the UI failed", "path", r.URL.Path, "error", err)
		problem = &client.Problem{Status: http.StatusInternalServerError, Title: "This page failed", Detail: "The server's log says why.", Remedy: "Reload the page"}
	}
	if problem.Status == http.StatusUnauthorized && r.Method == http.MethodGet && r.Header.Get("Hx-Request") == "" {
		http.Redirect(w, r.Request, u.href("login", "return", r.URL.RequestURI()), http.StatusSeeOther) //nolint:gosec // under the prefix
		return
	}
	if problem.Status == http.StatusUnauthorized {
		problem = &client.Problem{Status: problem.Status, Title: "You are not signed in", Detail: "Nothing was changed.", Remedy: "Sign in in another tab, and try again here"}
		if r.Header.Get("Hx-Request") == "" { // the browser still has the form
			problem.Remedy = "Sign in in another tab. Then reload this page, which sends the form again as you have filled it in"
		}
	}
	v := view{Title: problem.Title, Nav: u.navigation(""), Who: r.who, Problem: problem, Status: problem.Status}
	if asksForContent(r) {
		if html, err := u.content("problem", v); err == nil {
			u.write(w, r.Request, reply{http.StatusOK, "", html}) // shown in place
			return
		}
	} else if r.Header.Get("Hx-Request") != "" {
		v.Status = http.StatusOK // shown in place, too
	}
	u.render(w, r.Request, "problem", v)
}
