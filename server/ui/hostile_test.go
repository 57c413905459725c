package ui_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/ui"
)

func TestS5SigningInLeadsToNoOtherSite(t *testing.T) {
	s := newSite(t, nil)
	secret := s.token(policystore.Token{Name: "me", Scopes: []policystore.Scope{policystore.ScopeRead}})
	base, err := url.Parse(s.http.URL + "/ui/login")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{`/ui/../\evil.example/`, `/ui/..\\evil.example`, "/ui/..//evil.example", "/ui/..%2f/evil.example", "/ui/\t/../\\evil.example"} {
		browser := s.browser()
		browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		answer, err := browser.PostForm(base.String()+"?return="+url.QueryEscape(target), url.Values{"token": {secret}})
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		// A browser takes a backslash for a slash, and leaves out tabs.
		location := strings.NewReplacer(`\`, "/", "\t", "").Replace(answer.Header.Get("Location"))
		to, err := base.Parse(location)
		if err != nil || to.Host != base.Host || !strings.HasPrefix(to.Path, "/ui") {
			t.Errorf("%q leads to %q: %v, %v", target, answer.Header.Get("Location"), to, err)
		}
	}
}

func TestU1AnUpdateKeepsCarriageReturns(t *testing.T) {
	s := newSite(t, nil)
	receipts := s.enqueue(job.Request{Type: "email:send", Queue: "mail", Payload: []byte(`{}`), Meta: map[string]string{"note": "first\r\rid: 7\revent: other\rlast"}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/ui/live?page="+url.QueryEscape("/ui/jobs/"+receipts[0].ID), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text []byte
	for part := make([]byte, 64<<10); !bytes.Contains(text, []byte("last")); {
		n, err := answer.Body.Read(part)
		if text = append(text, part[:n]...); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if i := bytes.IndexByte(text, '\r'); i >= 0 { // which ends a line for a browser
		t.Errorf("a line ends in the middle of the content: %q", text[max(0, i-80):i+60])
	}
}

func TestU5AChangeFromAnotherSiteIsRefusedWithAPage(t *testing.T) {
	s := newSite(t, nil)
	u, err := ui.New(s.server, ui.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/ui/do/queues/mail/pause", strings.NewReader("reason=x"))
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	u.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "comes from a page of another site") ||
		!strings.Contains(w.Body.String(), "Host header on.<") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestU5ANameOfDotsIsNoStepInAPath(t *testing.T) {
	s := newSite(t, nil)
	s.storeFlow(&job.Flow{ID: "..", Jobs: []job.FlowJob{node("a", "t")}})
	s.storeFlow(&job.Flow{ID: "v1.2", Jobs: []job.FlowJob{node("a", "t")}})
	has(t, s.get("flows?id=."), "v1.2")
	has(t, s.get("flows/%2e%2e"), "<title>Flow .. ")
	has(t, s.post("do/queues/%2e%2e/pause", url.Values{"reason": {"x"}, "key": {"k"}}), ".. is paused.")
	if !s.queue("..").Paused {
		t.Error("the queue is open")
	}
}

// TestU3QueuesNamedByDotsAreReachable: a browser takes . and .. for steps in a path, also when they are escaped.
func TestU3QueuesNamedByDotsAreReachable(t *testing.T) {
	s := newSite(t, nil)
	names := []string{".", "..", "~..", "..."}
	for _, name := range names {
		s.enqueue(job.Request{Type: "t", Queue: name})
	}
	base, err := url.Parse(s.http.URL + "/ui/queues")
	if err != nil {
		t.Fatal(err)
	}
	follow := func(page, link string) string {
		t.Helper()
		found := regexp.MustCompile(link).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("no link like %s", link)
		}
		to, err := base.Parse(strings.ReplaceAll(html.UnescapeString(found[1]), "%2E", "."))
		if err != nil {
			t.Fatal(err)
		}
		return s.get(strings.TrimPrefix(to.RequestURI(), "/ui/"))
	}
	for _, name := range names {
		page := follow(s.get("queues"), `<th scope="row"><a href="([^"]*)">`+regexp.QuoteMeta(name)+`</a>`)
		has(t, page, "<title>Queue "+name+" ")
		has(t, follow(page, `"(/ui/do/queues/[^"]*/pause[^"]*)"`), "<title>Pause "+name+"? ")
	}
}

func TestU4ACommandLineTakesNoKeyForAFlag(t *testing.T) {
	s := newSite(t, nil)
	page := html.UnescapeString(s.get("idempotency?key=" + url.QueryEscape("--server=http://evil.example")))
	if strings.Contains(page, "get --server=http://evil.example") {
		t.Error("the key is a flag of the command")
	}
}

func TestU5ACommandLineHoldsNoControlCharacters(t *testing.T) {
	s := newSite(t, nil)
	const name = "a\x03\rit's\\\u009b" // a terminal takes the first two as it is pasted, and a browser makes a line feed of the second
	s.enqueue(job.Request{Type: "t", Queue: name})
	page := s.get("do/queues/" + url.PathEscape(name) + "/resume")
	const want = `tenet queues resume $'a\003\015it\'s\\\302\233'`
	if m := shownCommand.FindStringSubmatch(page); m == nil || html.UnescapeString(m[1]) != want {
		t.Errorf("%q, want %s", m, want)
	}
	m := shownCommand.FindStringSubmatch(s.get("do/queues/a%00b/resume"))
	if m == nil || strings.Contains(m[1], `\000`) { // at which a shell ends the word
		t.Errorf("%q names queue a", m)
	}
}

// awayJobs is a store whose searches fail, or panic, while it is away.
type awayJobs struct {
	*sqlite.Jobs
	away   *atomic.Bool
	failed chan struct{}
	panics bool
}

func (a awayJobs) Search(ctx context.Context, s job.Search) (job.Found, error) {
	if a.away.Load() {
		select {
		case a.failed <- struct{}{}:
		default:
		}
		if a.panics {
			panic(http.ErrAbortHandler) // which the server lets through
		}
		return job.Found{}, errors.New("the store is away")
	}
	return a.Jobs.Search(ctx, s)
}

func TestU1AChangeThatCouldNotBeShownIsShownLater(t *testing.T) {
	t.Parallel()
	for name, panics := range map[string]bool{"error": false, "panic": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testShownLater(t, panics)
		})
	}
}

func testShownLater(t *testing.T, panics bool) {
	t.Helper()
	away, failed := &atomic.Bool{}, make(chan struct{}, 1)
	s := newSite(t, func(o *server.Options) { o.Jobs = awayJobs{o.Jobs.(*sqlite.Jobs), away, failed, panics} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.enqueue(job.Request{Type: "first", Queue: "mail", Payload: []byte(`{}`)})
	next := s.watch(ctx, "jobs")
	if content := next(); !strings.Contains(content, "first") {
		t.Fatal(content)
	}
	time.Sleep(3 * time.Second) // the first sign of change is one of the beginning
	away.Store(true)
	s.enqueue(job.Request{Type: "late", Queue: "mail", Payload: []byte(`{}`)})
	select {
	case <-failed:
	case <-ctx.Done():
		t.Fatal("the page was not rendered anew")
	}
	away.Store(false)
	for content := next(); !strings.Contains(content, "late"); content = next() {
		if content == "" {
			t.Fatal("the page stays as it was before the change")
		}
	}
}

func TestU4ARedriveOfMoreJobsThanWereCountedIsPreviewedAgain(t *testing.T) {
	s := newSite(t, nil)
	s.seed()                                                                                         // 15 dead jobs
	form := url.Values{"count": {"10"}, "key": {"k"}, "canary": {"0"}, "rate": {"0"}, "stop": {"0"}} // of a preview before 5 of them died
	has(t, s.post("do/dlq/redrive", form), "Redrive 15 jobs?")
	stats, err := s.db.Jobs().Stats(t.Context())
	if err != nil || stats["mail"].Dead+stats["documents"].Dead != 15 {
		t.Errorf("jobs were released: %+v, %v", stats, err)
	}
	list, err := s.db.Jobs().Redrives(t.Context(), job.RedriveQuery{Limit: 10})
	if err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
