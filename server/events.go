package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

const (
	eventBeat = 15 * time.Second // a silent stream gets a comment, so that proxies keep it open
	eventTime = 10 * time.Second // a reader that takes longer for an event is cut off
)

func (s *Server) eventRoutes() {
	o := group{tag: "Events", scope: policystore.ScopeRead}.route(http.MethodGet, "/v1/events", "events", "Stream counters, transitions of jobs, and signs of change")
	o.Description = "Server-sent events. stats has the counters of GET /v1/stats, sent at first and when they change. transition has a job_transition event of the audit log, written by workers that record there; its ID is a cursor, from which a stream goes on after Last-Event-ID, or from the end of the log where the log does not reach as far; so does an open stream when the log is restored from a backup. pulse has a number for each of jobs, documents, audit and clients, which grows when something there has changed: sent at first, and then at most once a second. Numbers of different servers cannot be compared."
	o.Parameters = []*huma.Param{
		queryParameter("topics", "Some of stats, transitions and pulse, separated by commas; stats,transitions if absent. Tokens that are bound to queues or documents may not have transitions.", &huma.Schema{Type: huma.TypeString}),
		{Name: "Last-Event-ID", In: "header", Description: "The ID of the last transition that was received.", Schema: &huma.Schema{Type: huma.TypeString}},
	}
	o.stream = true
	s.raw(o, "text/event-stream", s.streamEvents)
}

// parseTopics reads the parameter of the same name.
func parseTopics(text string) (t topics, err error) {
	if text == "" {
		return topics{stats: true, transitions: true}, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		switch name {
		case "stats":
			t.stats = true
		case "transitions":
			t.transitions = true
		case "pulse":
			t.pulse = true
		default:
			err = fmt.Errorf("%w: topics: write some of stats, transitions and pulse", errInvalid)
		}
	}
	return t, err
}

func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	who, after := callerOf(r.Context()), r.Header.Get("Last-Event-ID")
	restored, _ := s.feed.restored() // before the log's end is looked for
	want, err := parseTopics(r.URL.Query().Get("topics"))
	err = cmp.Or(err, checkPosition("Last-Event-ID", after))
	if want.transitions {
		err = cmp.Or(err, who.unbound())
	}
	release, full := enter(s.limits.streams)
	if full == nil {
		defer release()
	}
	if want.transitions && cmp.Or(err, full) == nil {
		tail, failed := audit.Tail(r.Context(), s.options.Audit)
		switch {
		case after == "":
			after, err = tail, failed
		case failed == nil && positionOf(after) > positionOf(tail): // the log was restored from a backup
			after = tail
		}
	}
	if err := cmp.Or(err, full); err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	f := &stream{feed: s.feed, who: who, topics: want, position: positionOf(after), restored: restored, control: http.NewResponseController(w), out: w}
	f.run(r.Context(), s.Closing())
}

// stream is an open event stream.
type stream struct {
	feed *feed
	who  *caller
	topics
	position int64  // of the last transition
	restored int    // times the log was found to be an older one; position is in that log
	last     []byte // counters that were sent
	pulse    *api.Pulse
	sent     time.Time
	control  *http.ResponseController
	out      http.ResponseWriter
}

// run writes events until ctx ends, closing is closed, or the reader is gone or too slow.
func (f *stream) run(ctx context.Context, closing <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	looked, leave := f.feed.listen(ctx, f.topics)
	defer leave()
	for ctx.Err() == nil && f.write(ctx) == nil {
		select {
		case <-looked:
		case <-closing:
			return
		}
	}
}

// write writes what is new, in one piece where that is possible.
func (f *stream) write(ctx context.Context) error {
	var text []byte
	if f.stats {
		if raw := f.feed.counters(f.who); raw != nil && !bytes.Equal(raw, f.last) {
			f.last, text = raw, append(text, eventText("stats", "", raw)...)
		}
	}
	if f.topics.pulse {
		if p, ok := f.feed.beat(); ok && (f.pulse == nil || *f.pulse != p) {
			raw, _ := json.Marshal(p) // a struct of numbers
			f.pulse, text = &p, append(text, eventText("pulse", "", raw)...)
		}
	}
	if f.transitions {
		list, err := f.newTransitions(ctx)
		if err != nil {
			return err
		}
		for _, t := range list {
			text = append(text, t.text...)
		}
	}
	return f.sendOrBeat(text)
}

// sendOrBeat sends a text or, without one, a comment where the stream has long been silent.
func (f *stream) sendOrBeat(text []byte) error {
	switch {
	case len(text) > 0:
		return f.send(text)
	case time.Since(f.sent) >= eventBeat:
		return f.send([]byte(": \n\n"))
	}
	return nil
}

// newTransitions returns the transitions since the last ones. Those that the feed no longer has it sends, as they are read from the store.
func (f *stream) newTransitions(ctx context.Context) ([]transition, error) {
	if times, end := f.feed.restored(); times != f.restored {
		f.restored, f.position = times, min(f.position, end) // a stream may have begun in the restored log, and be behind
	}
	for !f.feed.server.draining() {
		list, to, ok := f.feed.after(f.position)
		if ok {
			f.position = to
			return list, nil
		}
		before := f.position
		var text []byte
		_, err := eachTransition(ctx, f.feed.server.options.Audit, before, func(t transition) {
			f.position, text = t.position, append(text, t.text...)
		})
		if err := f.sendOrBeat(text); err != nil {
			return nil, err
		}
		if err != nil || f.position == before { // the store is away, or the feed has not looked yet
			break
		}
	}
	return nil, nil //nolint:nilerr // the next look repeats it
}

var errReader = errors.New("the reader is gone or too slow")

func eventText(event, id string, data []byte) []byte {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return []byte(id + "event: " + event + "\ndata: " + string(data) + "\n\n")
}

func (f *stream) send(text []byte) error {
	f.sent = time.Now()
	_ = f.control.SetWriteDeadline(f.sent.Add(eventTime)) // not all writers can
	if _, err := f.out.Write(text); err != nil {
		return errReader
	}
	if err := f.control.Flush(); err != nil {
		return errReader
	}
	_ = f.control.SetWriteDeadline(time.Time{}) // with HTTP/2, a deadline ends a silent stream too
	return nil
}
