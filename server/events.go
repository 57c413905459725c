package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

const (
	eventEvery   = time.Second      // how often the store is looked at for a stream
	eventBeat    = 15 * time.Second // a silent stream gets a comment, so that proxies keep it open
	eventTime    = 10 * time.Second // a reader that takes longer for an event is cut off
	eventsAtOnce = 1000
)

func (s *Server) eventRoutes() {
	o := route{
		Operation: huma.Operation{
			OperationID: "events", Method: http.MethodGet, Path: "/v1/events", Summary: "Stream counters and transitions of jobs", Tags: []string{"Events"},
			Description: "Server-sent events. stats has the counters of GET /v1/stats, sent at first and when they change. transition has a job_transition event of the audit log, written by workers that record there; its ID is a cursor, from which a stream goes on after Last-Event-ID.",
			Parameters: []*huma.Param{
				queryParameter("topics", "stats, transitions or both, separated by a comma; both if absent. Tokens that are bound to queues or documents may have stats only.", &huma.Schema{Type: huma.TypeString}),
				{Name: "Last-Event-ID", In: "header", Description: "The ID of the last transition that was received.", Schema: &huma.Schema{Type: huma.TypeString}},
			},
		},
		scope: policystore.ScopeRead, stream: true,
	}
	s.raw(o, "text/event-stream", s.streamEvents)
}

func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r.Context())
	f := &stream{server: s, who: who, cursor: r.Header.Get("Last-Event-ID"), control: http.NewResponseController(w), out: w}
	topics := strings.Split(r.URL.Query().Get("topics"), ",")
	if topics[0] == "" {
		topics = []string{"stats", "transitions"}
	}
	f.stats, f.transitions = slices.Contains(topics, "stats"), slices.Contains(topics, "transitions")
	err := checkAfter(f.cursor)
	switch {
	case f.transitions:
		err = firstError(err, who.unbound())
	case !f.stats:
		err = fmt.Errorf("%w: topics: write stats, transitions or both", errInvalid)
	}
	release, full := enter(s.limits.streams)
	if full == nil {
		defer release()
	}
	if err := firstError(err, full); err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() { // ends with the request
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := f.begin(ctx); err != nil {
		s.problemOf(ctx, err).write(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for f.look(ctx) == nil && wait.For(ctx, eventEvery) == nil {
		continue
	}
}

// stream is an open event stream.
type stream struct {
	server             *Server
	who                *caller
	stats, transitions bool
	cursor             string // of the last transition
	last               []byte // counters that were sent
	sent               time.Time
	control            *http.ResponseController
	out                http.ResponseWriter
}

// begin finds where the transitions that are new begin.
func (f *stream) begin(ctx context.Context) (err error) {
	if f.transitions && f.cursor == "" {
		f.cursor, err = audit.Tail(ctx, f.server.options.Audit)
	}
	return err
}

// look sends what is new. While the store is away there is nothing new.
func (f *stream) look(ctx context.Context) error {
	if f.stats {
		if stats, err := f.server.cachedStats(ctx, f.who); err == nil {
			if raw, err := json.Marshal(stats); err == nil && !bytes.Equal(raw, f.last) {
				if err := f.send("stats", "", raw); err != nil {
					return err
				}
				f.last = raw
			}
		}
	}
	if f.transitions {
		if err := f.follow(ctx); err != nil {
			return err
		}
	}
	if time.Since(f.sent) < eventBeat {
		return nil
	}
	return f.write(": \n\n")
}

var errReader = errors.New("the reader is gone or too slow")

func (f *stream) follow(ctx context.Context) error {
	n := 0
	err := f.server.options.Audit.Read(ctx, f.cursor, func(cursor string, line []byte) error {
		if n++; n > eventsAtOnce {
			return errEnough
		}
		f.cursor = cursor
		if !bytes.Contains(line, []byte(`"`+string(audit.JobTransition)+`"`)) {
			return nil
		}
		e, err := audit.ParseLine(line)
		if err != nil || e.Type != audit.JobTransition {
			return nil //nolint:nilerr // it is not an event
		}
		return f.send("transition", cursor, line)
	})
	if errors.Is(err, errReader) {
		return err
	}
	return nil
}

func (f *stream) send(event, id string, data []byte) error {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return f.write(id + "event: " + event + "\ndata: " + string(data) + "\n\n")
}

func (f *stream) write(text string) error {
	f.sent = time.Now()
	_ = f.control.SetWriteDeadline(f.sent.Add(eventTime)) // not all writers can
	if _, err := f.out.Write([]byte(text)); err != nil {
		return errReader
	}
	if err := f.control.Flush(); err != nil {
		return errReader
	}
	return nil
}

// counters holds the last counters, which all streams share.
type counters struct {
	mu    sync.Mutex
	until time.Time
	stats api.Stats
}

// cachedStats returns the counters of at most a second ago, of the queues that a caller may see.
func (s *Server) cachedStats(ctx context.Context, who *caller) (api.Stats, error) {
	s.counters.mu.Lock()
	defer s.counters.mu.Unlock()
	if now := time.Now(); !now.Before(s.counters.until) {
		stats, err := s.options.Jobs.Stats(ctx)
		if err != nil {
			return api.Stats{}, err
		}
		s.counters.stats, s.counters.until = api.NewStats(stats), now.Add(eventEvery)
	}
	own := api.Stats{Queues: map[string]api.QueueStats{}}
	for name, q := range s.counters.stats.Queues {
		if within(name, who.Queues) {
			own.Queues[name] = q
		}
	}
	return own, nil
}
