package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tenetdev/tenet/server/client"
)

const (
	liveEvery = time.Second      // the most often a page is rendered anew for those who watch it
	liveBeat  = 15 * time.Second // a silent stream gets a comment, so that proxies keep it open
	liveRetry = 5 * time.Second  // how long after a failure a page is rendered anew, if nothing changes before
	liveWrite = 10 * time.Second // a browser that takes longer for an update is cut off
	maxLive   = 1000             // streams
)

// live renders pages for those who watch them: once for all who watch the same page with the same rights.
//
//	watch ─► watcher of the page exists? ──no──► start its goroutine
//	                 │ yes                        │ at most once a second, when the server's pulse has changed: load, render
//	                 └──────► subscribe ◄─────────┘ differs from the last: hand to all subscribers
//	the last subscriber leaves ─► the goroutine ends
type live struct {
	ui *UI

	mu      sync.Mutex
	watched map[string]*watched // by caller and page
	streams int
}

// watched is a page that somebody watches.
type watched struct {
	page *page
	r    *request // of the first who watched
	stop context.CancelFunc

	// Guarded by live.mu.
	subscribers map[chan []byte]struct{}
	last        []byte
}

// matchKey is where matching keeps the page of a live update.
type matchKey struct{}

type match struct {
	page *page
	r    *http.Request // with the wildcards of the path
}

// pageOf finds the page at a path and query, with the request that a browser would make for it.
func (u *UI) pageOf(r *http.Request, target string) (*page, *request) {
	at, err := url.Parse(target)
	if err != nil || at.Host != "" || !strings.HasPrefix(at.Path, u.options.Prefix+"/") {
		return nil, nil
	}
	var found match
	again := r.Clone(context.WithValue(r.Context(), matchKey{}, &found))
	again.Method, again.URL, again.RequestURI = http.MethodGet, at, target
	u.matching.ServeHTTP(httptest.NewRecorder(), again)
	if found.page == nil || found.page.still {
		return nil, nil
	}
	return found.page, u.request(found.r)
}

// serveLive streams the content of a page whenever it changes.
func (u *UI) serveLive(w http.ResponseWriter, r *http.Request) {
	p, q := u.pageOf(r, r.URL.Query().Get("page"))
	if p == nil {
		http.Error(w, "this page has no updates", http.StatusNotFound)
		return
	}
	if err := q.identify(); err != nil {
		http.Error(w, "sign in first", http.StatusUnauthorized)
		return
	}
	updates, leave, ok := u.live.watch(p, q)
	if !ok {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold updates back
	control := http.NewResponseController(w)
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	text := []byte(": \n\n")
	for {
		_ = control.SetWriteDeadline(time.Now().Add(liveWrite)) // not all writers can
		if _, err := w.Write(text); err != nil || control.Flush() != nil {
			return
		}
		_ = control.SetWriteDeadline(time.Time{}) // with HTTP/2, a deadline ends a silent stream too
		select {
		case <-r.Context().Done():
			return
		case <-u.server.Closing():
			return
		case <-beat.C:
			text = []byte(": \n\n")
		case update, open := <-updates:
			if !open {
				return // the caller's rights have ended, or the page has
			}
			text = update
		}
	}
}

// watch subscribes to the content of a page.
func (l *live) watch(p *page, q *request) (updates <-chan []byte, leave func(), ok bool) {
	who, _ := json.Marshal(q.who) // a struct of texts
	key := string(who) + " " + q.URL.RequestURI()
	ch := make(chan []byte, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= maxLive {
		return nil, nil, false
	}
	l.streams++
	if l.watched == nil {
		l.watched = map[string]*watched{}
	}
	w := l.watched[key]
	if w == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(q.Context()))
		q.Request = q.WithContext(ctx)
		w = &watched{page: p, r: q, stop: stop, subscribers: map[chan []byte]struct{}{}}
		l.watched[key] = w
		go l.follow(ctx, key, w) // ends when its last subscriber leaves
	} else if w.last != nil {
		ch <- w.last
	}
	w.subscribers[ch] = struct{}{}
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams--
		delete(w.subscribers, ch)
		if len(w.subscribers) == 0 {
			w.stop()
			if l.watched[key] == w {
				delete(l.watched, key)
			}
		}
	}, true
}

// follow renders a page until nobody watches it.
func (l *live) follow(ctx context.Context, key string, w *watched) {
	var sum [sha256.Size]byte
	changed := l.ui.server.Watch(ctx)
	every := time.NewTicker(liveEvery)
	defer every.Stop()
	for {
		html, err := l.content(w)
		if p, isProblem := errors.AsType[*client.Problem](err); isProblem && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests {
			l.end(key, w)
			return
		}
		if now := sha256.Sum256(html); err == nil && now != sum {
			sum = now
			l.hand(w, event("content", html))
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if w.page.moving && err == nil {
			continue
		}
		var again <-chan time.Time
		if err != nil { // what has changed was not shown
			again = time.After(liveRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case _, open := <-changed:
			if !open { // the server drains
				return
			}
		}
	}
}

// content renders a page. No request waits for it that could take a panic, which would end the process.
func (l *live) content(w *watched) (html []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("the page panicked")
			l.ui.options.Logger.ErrorContext(w.r.Context(), err.Error(), "path", w.r.URL.Path, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	data, err := w.page.load(w.r)
	if err != nil {
		return nil, err
	}
	return l.ui.content(w.page.file, view{Who: w.r.who, Data: data, Return: w.r.URL.RequestURI()})
}

// hand gives an update to all subscribers. One who has not taken the last yet gets this one instead.
func (l *live) hand(w *watched, update []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.last = update
	for ch := range w.subscribers {
		select {
		case <-ch:
		default:
		}
		ch <- update
	}
}

// end closes the streams of a page that can no longer be loaded.
func (l *live) end(key string, w *watched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[key] == w {
		delete(l.watched, key)
	}
	for ch := range w.subscribers {
		close(ch)
		delete(w.subscribers, ch)
	}
}

// event writes a server-sent event.
func event(name string, data []byte) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\n")
	data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")) // as in HTML; all end a line of a stream
	for line := range bytes.Lines(data) {
		b.WriteString("data: ")
		b.Write(bytes.TrimRight(line, "\n"))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}
