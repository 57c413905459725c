package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

const (
	eventSilence = 45 * time.Second // three beats of the server
	maxEvent     = 1 << 20
	watchPause   = 200 * time.Millisecond // before the first repetition of a failed request
	watchLongest = 5 * time.Second
)

var errEnded = errors.New("the stream has ended")

// Watch passes the events of the server's jobs to visit, as [job.Watch] does for a store: until ctx ends or visit returns an
// error, also while the server is away in between. It returns a *Problem if the server refuses the request.
func (j *Jobs) Watch(ctx context.Context, o job.WatchOptions, visit func(job.Event) error) error {
	w := &jobWatch{WatchOptions: o, client: j.client, visit: visit}
	backoff := wait.Backoff{Min: watchPause, Max: watchLongest}
	for ctx.Err() == nil {
		begun, from := time.Now(), w.After
		err := w.follow(ctx)
		problem, refused := errors.AsType[*Problem](err)
		switch {
		case w.stopped != nil:
			return w.stopped
		case ctx.Err() != nil:
		case refused && problem.Status < http.StatusInternalServerError && problem.Status != http.StatusTooManyRequests:
			return asJob(err)
		default:
			if w.After != from || time.Since(begun) > watchLongest { // otherwise the stream ended as soon as it began
				backoff.Reset()
			}
			if o.Failing != nil && !w.away {
				o.Failing(err)
				w.away = true
			}
			_ = backoff.Wait(ctx)
		}
	}
	return ctx.Err()
}

// jobWatch is a watch that goes on after the position After.
type jobWatch struct {
	job.WatchOptions
	client  *Client
	visit   func(job.Event) error
	stopped error // by visit
	away    bool  // Failing was called
}

// follow reads one stream until it ends.
func (w *jobWatch) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	call := Call{Method: http.MethodGet, Path: "/v1/jobs/events", Accept: "text/event-stream"}
	if text := w.Filter.String(); text != "" {
		call.Query = url.Values{"filter": {text}}
	}
	if w.After >= 0 {
		call.LastEventID = strconv.FormatInt(w.After, 10)
	}
	answer, err := w.client.send(ctx, call)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind != call.Accept {
		return fmt.Errorf("%s: the answer is not a stream", call.name())
	}
	if w.away {
		w.away = false
		w.Failing(nil)
	}
	watchdog := time.AfterFunc(eventSilence, func() { cancel(errors.New("the server is silent")) })
	defer watchdog.Stop()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for place := w.After; lines.Scan(); {
		watchdog.Reset(eventSilence)
		switch name, value, _ := bytes.Cut(lines.Bytes(), []byte(": ")); string(name) {
		case "id":
			place, _ = strconv.ParseInt(string(value), 10, 64) // a number, as the API describes it
		case "": // without an event, an ID says how far the stream has come
			w.After = place
		case "data": // every event stands on one line, and is of the type job
			var e job.Event
			if err := json.Unmarshal(value, &e); err != nil {
				return fmt.Errorf("%s: the answer is not what the API describes", call.name())
			}
			w.After, place = e.Position, e.Position
			if w.stopped = w.visit(e); w.stopped != nil {
				return w.stopped
			}
		}
	}
	if err = context.Cause(ctx); err == nil {
		err = lines.Err()
	}
	if err == nil {
		err = errEnded
	}
	return fmt.Errorf("%s: %w", call.name(), netguard.Cause(err))
}
