package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
)

// transport is a way to follow a document. A follower falls back from one to the next:
//
//	stream ──not possible──► long poll ──not possible──► GET
//	   ▲                         │                        │
//	   └──────────── after fallbackFor ───────────────────┘
type transport int

const (
	byStream transport = iota
	byPoll
	byGet
)

// Times of a follower.
const (
	firstByte    = 10 * time.Second // a stream that is silent at first is held back by a proxy
	silence      = 3 * protocol.Heartbeat
	pollWait     = 50 * time.Second
	getTimeout   = 10 * time.Second // of a GET, beyond the time that the server may hold it
	pollInterval = 30 * time.Second // between GETs
	fallbackFor  = 5 * time.Minute
	// spread is the time over which clients return whose stream has ended: many lose theirs at once when a server stops.
	spread = 5 * time.Second
)

// unsuitableError says that the way to follow does not work here, as opposed to the server.
type unsuitableError struct{ cause error }

func (e *unsuitableError) Error() string { return e.cause.Error() }
func (e *unsuitableError) Unwrap() error { return e.cause }

// run follows the document until ctx ends.
func (f *follower) run(ctx context.Context) {
	way := byStream
	var returnAt time.Time
	backoff := wait.Backoff{Min: f.o.MinBackoff, Max: max(f.o.MinBackoff, f.o.MaxBackoff)}
	for ctx.Err() == nil {
		if way != byStream && time.Now().After(returnAt) {
			way = byStream
		}
		pause, err := f.once(ctx, way)
		if ctx.Err() != nil {
			return
		}
		if _, unsuitable := errors.AsType[*unsuitableError](err); unsuitable && way != byGet {
			if pause, err = f.get(ctx, 0); err == nil { // it is not the server that fails
				if way == byStream {
					returnAt = time.Now().Add(early(fallbackFor))
				}
				way++
				pause = 0
			}
		}
		if err == nil {
			backoff.Reset()
		} else {
			f.failed(err)
			pause = max(backoff.Failed(), retryAfter(err))
		}
		_ = wait.For(ctx, pause)
	}
}

// retryAfter is how long the server asked to wait, and up to a half more, so that clients do not return together.
func retryAfter(err error) time.Duration {
	if status, ok := errors.AsType[*statusError](err); ok && status.retryAfter > 0 {
		return status.retryAfter + rand.N(status.retryAfter/2+1)
	}
	return 0
}

// once follows the document for one stream or request, and returns the pause before the next.
func (f *follower) once(ctx context.Context, way transport) (pause time.Duration, err error) {
	switch way {
	case byStream:
		return rand.N(spread), f.stream(ctx)
	case byPoll:
		return f.get(ctx, pollWait)
	default:
		return f.get(ctx, 0)
	}
}

// headers are those that say who asks and what it has.
func (f *follower) headers() http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := http.Header{}
	h.Set(protocol.HeaderClient, f.o.ClientID)
	if len(f.o.Labels) > 0 {
		h.Set(protocol.HeaderLabels, protocol.FormatLabels(f.o.Labels))
	}
	if f.state.applied > 0 {
		h.Set(protocol.HeaderApplied, strconv.FormatInt(f.state.applied, 10))
	}
	if f.etag != "" {
		h.Set("If-None-Match", f.etag)
	}
	return h
}

// get makes a conditional GET, which the server may answer only after longest.
func (f *follower) get(ctx context.Context, longest time.Duration) (pause time.Duration, err error) {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, longest+getTimeout)
	defer cancel()
	headers := f.headers()
	if longest > 0 {
		headers.Set("Prefer", protocol.FormatWait(longest))
	}
	answer, err := f.getter.fetch(within, protocol.LivePath(f.o.Document), headers, protocol.MaxEnvelope)
	if status, ok := errors.AsType[*statusError](err); err != nil && within.Err() != nil || ok && status.status == http.StatusGatewayTimeout {
		return 0, &unsuitableError{err}
	}
	if err != nil {
		return 0, err
	}
	isNew := false
	if answer.unchanged {
		f.alive(true)
	} else if isNew, err = f.accept(answer.body); err != nil {
		return 0, err
	}
	if longest > 0 && (isNew || time.Since(began) > longest/2) {
		return 0, nil
	}
	return early(pollInterval), nil // the server does not wait, or was not asked to
}

// stream follows a stream until it ends. Its error is nil if the stream worked, however it ended.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(firstByte, func() { cancel(errSilent) })
	defer watchdog.Stop()
	headers := f.headers()
	headers.Set("Accept", protocol.TypeStream)
	path := protocol.LivePath(f.o.Document)
	answer, err := f.getter.send(ctx, request{method: http.MethodGet, path: path, headers: headers})
	if err != nil && context.Cause(ctx) == errSilent {
		return &unsuitableError{errSilent}
	}
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		err := f.getter.fail(http.MethodGet, path, kindOf(answer.StatusCode), statusOf(answer))
		switch answer.StatusCode {
		case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusNotImplemented,
			http.StatusGatewayTimeout, http.StatusNotModified:
			return &unsuitableError{err}
		}
		return err
	}
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, protocol.TypeStream) {
		return &unsuitableError{fmt.Errorf("%w: the answer is not a stream", policy.ErrPolicyFetchFailed)}
	}
	worked, err := f.events(bufio.NewReader(answer.Body), watchdog)
	switch {
	case errors.Is(err, policy.ErrPolicyFetchFailed):
		return err
	case worked:
		return nil
	}
	return &unsuitableError{errSilent}
}

var errSilent = fmt.Errorf("%w: the stream is silent", policy.ErrProviderUnavailable)

// events reads events until the stream ends, and reports whether anything arrived.
func (f *follower) events(body *bufio.Reader, watchdog *time.Timer) (worked bool, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4<<10), protocol.MaxEnvelope+1<<10)
	kind, data := "", []byte(nil)
	for lines.Scan() {
		watchdog.Reset(silence)
		line := lines.Bytes()
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && kind == protocol.EventRevision:
			if _, err := f.accept(data); err != nil {
				return worked, err
			}
			kind, data = "", nil
		case len(line) == 0:
			kind, data = "", nil
		case len(name) == 0:
			f.alive(worked)
		case string(name) == "event":
			kind = string(value)
		case string(name) == "data":
			data = bytes.Clone(value) // the server sends an envelope on one line
		}
		worked = true
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return worked, fmt.Errorf("%w: an event is larger than %d bytes", policy.ErrPolicyFetchFailed, protocol.MaxEnvelope)
	}
	return worked, lines.Err()
}
