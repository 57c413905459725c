package testhttp

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Transport answers requests by a handler in this process. Bodies are not buffered: a handler waits for its reader. A write deadline
// that passes cuts the answer off, whether or not the handler writes, as it does with HTTP/2.
type Transport struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper. The handler's context ends with the request's, or when the answer's body is closed.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	reader, writer := io.Pipe()
	w := &answer{header: http.Header{}, pipe: writer, started: make(chan struct{})}
	go func() {
		defer func() { _ = writer.Close() }()
		t.Handler.ServeHTTP(w, r.WithContext(ctx))
		w.WriteHeader(http.StatusOK)
		_ = w.SetWriteDeadline(time.Time{})
	}()
	context.AfterFunc(ctx, func() { _ = reader.CloseWithError(context.Cause(ctx)) })
	select {
	case <-w.started:
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Header: w.sent, Body: body{reader, cancel}, Request: r, ContentLength: -1,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

type answer struct {
	header, sent http.Header
	pipe         *io.PipeWriter
	status       int
	once         sync.Once
	started      chan struct{}
	late         *time.Timer // nil without a deadline; only the handler uses it
}

func (w *answer) Header() http.Header { return w.header }
func (w *answer) Flush()              { w.WriteHeader(http.StatusOK) }

// SetWriteDeadline is called by http.ResponseController.
func (w *answer) SetWriteDeadline(deadline time.Time) error {
	if w.late != nil {
		w.late.Stop()
	}
	if w.late = nil; !deadline.IsZero() {
		w.late = time.AfterFunc(time.Until(deadline), func() { _ = w.pipe.CloseWithError(os.ErrDeadlineExceeded) })
	}
	return nil
}

func (w *answer) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.started)
	})
}

func (w *answer) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.pipe.Write(data)
}

type body struct {
	*io.PipeReader
	cancel func()
}

func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
