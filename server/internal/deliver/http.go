package deliver

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// writeTimeout is how long one write to a client may take.
const writeTimeout = 10 * time.Second

// ServeLive answers GET /v1/documents/{name}/live: a stream, a long poll or a conditional GET, as the headers say.
func (h *Hub) ServeLive(w http.ResponseWriter, r *http.Request) {
	c, err := identityOf(r)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	d, err := h.recent(r)
	if err != nil {
		fail(w, err)
		return
	}
	request := &request{hub: h, document: d, identity: c, w: w, r: r}
	wait := protocol.ParseWait(r.Header.Get("Prefer"))
	switch {
	case strings.Contains(r.Header.Get("Accept"), protocol.TypeStream):
		request.stream()
	case wait > 0 && c.holds != "":
		request.poll(wait)
	default:
		request.get()
	}
}

// recent returns the document of a request, if what is known of it is recent.
func (h *Hub) recent(r *http.Request) (*document, error) {
	if !h.available() {
		return nil, errUnavailable
	}
	return h.document(r.Context(), r.PathValue("name"))
}

func fail(w http.ResponseWriter, err error) {
	if errors.Is(err, policystore.ErrNotFound) {
		problem(w, http.StatusNotFound, "there is no such document")
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(5+rand.N(10))) // seconds, spread so that clients do not return together
	problem(w, http.StatusServiceUnavailable, "the policy store does not answer")
}

// identityOf reads the headers that name the client and say what it has.
func identityOf(r *http.Request) (c identity, err error) {
	c = identity{id: r.Header.Get(protocol.HeaderClient), holds: strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/")}
	if c.id == "" {
		return c, nil
	}
	if header := r.Header.Get(protocol.HeaderLabels); header != "" {
		if c.labels, err = protocol.ParseLabels(header); err != nil {
			return c, err
		}
	}
	if header := r.Header.Get(protocol.HeaderApplied); header != "" {
		if c.applied, err = strconv.ParseInt(header, 10, 64); err != nil || c.applied < 0 {
			return c, errors.New(protocol.HeaderApplied + ": write the number of a revision")
		}
	}
	return c, protocol.CheckClient(c.id, c.labels)
}

// request is one request for a document.
type request struct {
	hub      *Hub
	document *document
	identity
	w http.ResponseWriter
	r *http.Request
}

// get sends the revision, or 304 if the client has it.
func (q *request) get() {
	v := q.document.view.Load()
	if v.gone {
		fail(q.w, policystore.ErrNotFound)
		return
	}
	s := v.desired(q.identity)
	if sent, err := s.answer(q.w, q.holds); sent {
		q.record(s, s.number)
	} else if err == nil {
		q.record(s, 0)
	}
}

// answer sends a revision, or 304 to a client that holds it.
func (s *signed) answer(w http.ResponseWriter, holds string) (sent bool, err error) {
	header := w.Header()
	header.Set("ETag", s.etag)
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", varied)
	if s.etag == holds {
		w.WriteHeader(http.StatusNotModified)
		return false, nil
	}
	header.Set("Content-Type", protocol.TypeJSON)
	header.Set("Content-Length", strconv.Itoa(len(s.body)))
	_, err = w.Write(s.body)
	return err == nil, err
}

// ServeTrial answers GET /v1/documents/{name}/trial/live with the revision under trial, or with 404.
func (h *Hub) ServeTrial(w http.ResponseWriter, r *http.Request) {
	d, err := h.recent(r)
	if err != nil {
		fail(w, err)
		return
	}
	trial := d.view.Load().trial
	if trial == nil {
		problem(w, http.StatusNotFound, "the document has no revision under trial")
		return
	}
	_, _ = trial.answer(w, strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/")) // the client may be gone
}

const varied = protocol.HeaderClient + ", " + protocol.HeaderLabels + ", Accept"

// poll answers as soon as the client should have another revision than it holds.
func (q *request) poll(longest time.Duration) {
	d := q.document
	w := d.watch(q.identity)
	defer d.forget(w)
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-w.changed(d):
	case <-timer.C:
	case <-q.hub.closed:
	case <-q.r.Context().Done(): // the client is gone, or may not follow the document any more
		problem(q.w, http.StatusUnauthorized, "this client may not follow the document any more")
		return
	}
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(writeTimeout))
	q.get()
}

// changed returns a channel that is ready when the watcher should have another revision than it holds.
func (w *watcher) changed(d *document) <-chan struct{} {
	if v := d.view.Load(); !v.gone && v.desired(w.identity).etag == w.holds {
		return w.wake
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

// stream sends every revision that the client should have until the client leaves, is too slow, or the server drains or has lost the document.
func (q *request) stream() {
	header := q.w.Header()
	header.Set("Content-Type", protocol.TypeStream)
	header.Set("Cache-Control", "no-store")
	control := http.NewResponseController(q.w)
	send := func(data []byte) error {
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := q.w.Write(data); err != nil {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		_ = control.SetWriteDeadline(time.Time{}) // with HTTP/2, a deadline ends a silent stream too
		return nil
	}
	d := q.document
	w := d.watch(q.identity)
	defer d.forget(w)
	heartbeat := time.NewTicker(protocol.Heartbeat - rand.N(protocol.Heartbeat/5)) // streams do not wake together
	defer heartbeat.Stop()
	if err := send(heartbeatComment); err != nil {
		return
	}
	for !d.view.Load().gone {
		if s := d.next(w); s != nil {
			if err := send(s.event); err != nil {
				return
			}
			q.applied = 0 // what it said when it connected is out of date
			q.record(s, s.number)
		} else {
			q.record(d.view.Load().desired(w.identity), 0)
		}
		select {
		case <-w.wake:
		case <-heartbeat.C:
			if err := send(heartbeatComment); err != nil {
				return
			}
		case <-q.hub.closed:
			return
		case <-q.r.Context().Done():
			return
		}
	}
}

var heartbeatComment = []byte(":\n\n")

func (q *request) record(s *signed, delivered int64) {
	if q.id == "" {
		return
	}
	q.hub.reported.saw(contact{
		ClientKey: policystore.ClientKey{Document: q.document.name, ID: q.id}, labels: q.labels,
		desired: s.number, delivered: delivered, applied: q.applied,
	}, time.Now())
}

// ServeReport takes POST /v1/documents/{name}/reports and answers with 204. What the report says is written to the store within about a
// second.
func (h *Hub) ServeReport(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, protocol.MaxReport))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		problem(w, http.StatusRequestEntityTooLarge, "a report has at most "+strconv.FormatInt(tooLarge.Limit, 10)+" bytes")
		return
	}
	if err != nil {
		problem(w, http.StatusRequestTimeout, "the body did not arrive completely") // the client sends the report again
		return
	}
	report, err := protocol.ReadReport(data)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	d, err := h.document(r.Context(), r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return
	}
	v := d.view.Load()
	h.reported.report(v, report, time.Now())
	if v.trial != nil {
		w.Header().Set(protocol.HeaderTrial, strconv.FormatInt(v.trial.number, 10))
	}
	w.WriteHeader(http.StatusNoContent)
}

// problem writes a problem of RFC 9457.
func problem(w http.ResponseWriter, status int, detail string) {
	p := &api.Problem{Type: api.TypeOf(status), Title: http.StatusText(status), Status: status, Detail: detail}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}
