package ui

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/client"
)

// Options of [New].
type Options struct {
	// Prefix is the path under which the handler is mounted, without a slash at its end. Default "/ui".
	Prefix string
	// Development serves the components of pages under Prefix/components.
	Development bool
	// Store is how a worker names the stores, such as sqlite:/var/lib/jobs.db, in commands that pages show: never with a
	// password. Default URL, which a person replaces.
	Store string
	// Logger gets failures, never a token or a payload. Default slog.Default().
	Logger *slog.Logger
}

// UI serves the pages of a server. It is safe for concurrent use.
type UI struct {
	server    *server.Server
	options   Options
	client    *client.Client
	mux       *http.ServeMux
	matching  *http.ServeMux                                // finds the pages of live updates
	templates map[string]func() (*template.Template, error) // by name of the page's file
	assets    *assets
	live      live
}

// New makes the UI of a server. Its handler is mounted with [server.Server.Mount], or in a program's own server.
func New(s *server.Server, o Options) (*UI, error) {
	if s == nil {
		return nil, errors.New("ui: New: the server is missing")
	}
	o.Prefix = cmp.Or(o.Prefix, "/ui")
	if !strings.HasPrefix(o.Prefix, "/") || strings.HasSuffix(o.Prefix, "/") || strings.ContainsAny(o.Prefix, "{}?# ") {
		return nil, fmt.Errorf("ui: New: Prefix %q: write a path such as /ui, without a slash at its end", o.Prefix)
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	u := &UI{server: s, options: o, mux: http.NewServeMux(), matching: http.NewServeMux()}
	u.live.ui = u
	var err error
	if u.client, err = newClient(s); err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	if u.assets, err = loadAssets(o.Prefix); err != nil {
		return nil, fmt.Errorf("ui: assets: %w", err)
	}
	if u.templates, err = u.readTemplates(); err != nil {
		return nil, fmt.Errorf("ui: templates: %w", err)
	}
	u.routes()
	return u, nil
}

// Handler returns the handler of everything under the prefix.
func (u *UI) Handler() http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.fail(w, u.request(r), &client.Problem{
			Status: http.StatusForbidden, Title: "Nothing was changed", Detail: "Your browser says that this change comes from a page of another site.", Remedy: "Repeat it on a page of this server. A proxy in front of it has to pass the Host header on",
		})
	}))
	next := protection.Handler(u.mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control, now := http.NewResponseController(w), time.Now() // not all writers have deadlines
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(now.Add(formTime))
		}
		_ = control.SetWriteDeadline(now.Add(pageTime)) // in place of that of the connection's last request
		next.ServeHTTP(w, r)
	})
}

const (
	formTime = 30 * time.Second // how long a browser may take to send a form
	pageTime = 2 * time.Minute  // how long a page may take from the request until the browser has it; a stream's events have times of their own
)

func (u *UI) routes() {
	prefix := u.options.Prefix
	u.mux.Handle("GET "+prefix+"/static/", u.assets)
	u.mux.HandleFunc("GET "+prefix+"/live", u.serveLive)
	handle := func(pattern string, serve func(http.ResponseWriter, *request)) {
		u.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			q := u.request(r)
			if err := q.identify(); err != nil {
				u.fail(w, q, err)
				return
			}
			serve(w, q)
		})
	}
	for _, p := range u.pages() {
		handle("GET "+prefix+"/"+p.path, func(w http.ResponseWriter, q *request) { u.servePage(w, q, p) })
		u.matching.HandleFunc("GET "+prefix+"/"+p.path, func(_ http.ResponseWriter, r *http.Request) {
			found := r.Context().Value(matchKey{}).(*match)
			found.page, found.r = p, r
		})
	}
	for _, a := range u.actions() {
		pattern := prefix + "/do/" + a.path
		handle("GET "+pattern, func(w http.ResponseWriter, q *request) { u.showPreview(w, q, a, "") })
		handle("POST "+pattern, func(w http.ResponseWriter, q *request) { u.serveAction(w, q, a) })
	}
	for _, f := range u.fragments() {
		handle("GET "+prefix+"/part/"+f.path, func(w http.ResponseWriter, q *request) { u.serveFragment(w, q, f) })
	}
	u.sessionRoutes()
	u.mux.HandleFunc(prefix+"/", func(w http.ResponseWriter, r *http.Request) { u.fail(w, u.request(r), errNoPage) })
}

// pages lists the pages, in the order of the navigation.
func (u *UI) pages() []*page {
	list := []*page{
		overviewPage(), queuesPage(), queuePage(), workersPage(), periodicPage(),
		{path: "jobs", nav: "Jobs", title: "Jobs", file: "jobs", load: loadJobs},
		{path: "jobs/{id}", nav: "Jobs", file: "job", load: loadJob},
		{path: "flows", nav: "Flows", title: "Flows", file: "flows", load: loadFlows},
		{path: "flows/{id}", nav: "Flows", file: "flow", load: loadFlow},
		limitsPage(),
		{path: "dlq", nav: "Dead letters", title: "Dead letters", file: "dlq", load: loadDeadLetters},
		redrivesPage(), redrivePage(),
		policiesPage(), policyRulesPage(), policyTextPage(), policyProofPage(), policySimulationPage(), policyRevisionsPage(), policyDiffPage(),
		rolloutPage(), trialPage(), clientsPage(), mechanismsPage(), pipelinesPage(),
		recordsPage(), recordPage(), auditPage(), eventPage(), operatorsPage(), tokensPage(),
	}
	if u.options.Development {
		list = append(list, componentsPage())
	}
	return list
}

// actions lists the changes that a person can make.
func (u *UI) actions() []*action {
	return slices.Concat(jobActions(), flowActions(), redriveActions(), []*action{
		pauseQueueAction(), resumeQueueAction(), setQueueAction(),
		runPeriodicAction(), setPeriodicAction(), deletePeriodicAction(), resetPeriodicAction(),
		newLimitAction(), setLimitAction(), offLimitAction(), resetLimitAction(),
		{path: "policies/{name}/publish", preview: editorPreview, make: publish}, {path: "new-policy", preview: editorPreview, make: publish},
		freezeAction(), unfreezeAction(), rollbackAction(), rolloutAction(), endTrialAction(),
		resolveRecordAction(), clearRecordAction(), expireRecordsAction(),
		createTokenAction(), revokeTokenAction(),
		verifyAuditAction(), replayAuditAction(),
	})
}

// fragments lists the parts of pages that scripts ask for.
func (u *UI) fragments() []*fragment { return []*fragment{jobSuggestions()} }
