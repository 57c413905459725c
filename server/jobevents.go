package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// jobEventsAhead is how many events of jobs wait for a reader before the store is read further.
const jobEventsAhead = 1000

func (s *Server) jobEventRoutes() {
	o := group{tag: "Jobs", scope: policystore.ScopeRead}.route(http.MethodGet, "/v1/jobs/events", "job-events", "Stream what workers do with jobs")
	o.Description = "Server-sent events of the type job: a worker has started a job, settled an attempt, or taken back a job whose lease had expired. Workers of all processes publish them in the store while somebody watches; running ones notice a watcher within half a second. The ID of an event is its position, from which a stream goes on after Last-Event-ID; without one it begins with the events from now on. An ID without an event says how far the stream has come. lost is the number of events that are missing before one because a reader or the store was too slow; an event without an id in its data only reports that. Metadata is shown without secrets."
	o.Parameters = []*huma.Param{
		queryParameter("filter", "For example: state:dead queue:mail. By id, state (the new one), queue, type, error and meta.", &huma.Schema{Type: huma.TypeString}),
		{Name: "Last-Event-ID", In: "header", Description: "The ID of the last event that was received; 0 for all that the store still has.", Schema: &huma.Schema{Type: huma.TypeString}},
	}
	o.stream = true
	s.raw(o, "text/event-stream", s.streamJobEvents)
}

func (s *Server) streamJobEvents(w http.ResponseWriter, r *http.Request) {
	who, position := callerOf(r.Context()), r.Header.Get("Last-Event-ID")
	filter, err := filterFor(who, api.JobFilter{Filter: r.URL.Query().Get("filter")})
	relay, lack := able[job.Relay](s.options.Jobs, "this store does not pass on the events of workers", "use SQLite or PostgreSQL")
	if unfit := job.CheckWatch(filter); err == nil && unfit != nil {
		err = fmt.Errorf("%w: %w", errInvalid, unfit)
	}
	release, full := enter(s.limits.streams)
	if full == nil {
		defer release()
	}
	if err := cmp.Or(lack, err, checkPosition("Last-Event-ID", position), full); err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := &stream{control: http.NewResponseController(w), out: w}
	if out.send([]byte(": \n\n")) != nil {
		return
	}
	o := job.WatchOptions{Filter: filter, After: positionOf(position)}
	if position == "" {
		o.After = -1
	}
	s.passJobEvents(r.Context(), relay, o, out)
}

// passJobEvents writes events until ctx ends, the server drains, or the reader is gone or too slow.
func (s *Server) passJobEvents(ctx context.Context, relay job.Relay, o job.WatchOptions, out *stream) {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan []byte, jobEventsAhead)
	pass := func(text []byte) error {
		select {
		case found <- text:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	told, at := o.After, time.Time{}
	o.At = func(position int64) { // so that a reader to whom no event came goes on there, too
		if position != told && time.Since(at) >= eventBeat {
			told, at = position, time.Now()
			_ = pass([]byte("id: " + strconv.FormatInt(position, 10) + "\n\n"))
		}
	}
	go func() {
		defer close(found)
		_ = job.Watch(ctx, relay, o, func(e job.Event) error { // ends with ctx
			told = e.Position
			return pass(jobEventText(&e))
		})
	}()
	defer func() {
		cancel()
		for range found { // until the watch has ended
		}
	}()
	beat := time.NewTicker(eventBeat)
	defer beat.Stop()
	for {
		text := []byte(": \n\n")
		select {
		case text = <-found:
			for len(found) > 0 {
				text = append(text, <-found...)
			}
		case <-beat.C:
		case <-ctx.Done():
			return
		case <-s.Closing():
			return
		}
		if out.send(text) != nil {
			return
		}
	}
}

func jobEventText(e *job.Event) []byte {
	e.Meta = new(secrets.Redaction).Map(e.Meta)
	raw, _ := json.Marshal(e) // texts and numbers
	return eventText("job", strconv.FormatInt(e.Position, 10), raw)
}
