package tenethttp

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"syscall"
)

// evidence collects what the transport tells about one attempt, to prove that a request was not sent.
type evidence struct {
	asked     atomic.Bool // the transport looked for a connection, so it does tell
	connected atomic.Bool
	answered  atomic.Bool // a server has answered, if only with a redirect
}

func (e *evidence) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { e.asked.Store(true) },
		GotConn:              func(httptrace.GotConnInfo) { e.connected.Store(true) },
		GotFirstResponseByte: func() { e.answered.Store(true) },
	})
}

// unsent reports whether it is proven that no server has looked at the request of an attempt that failed with err.
// Without a connection nothing was sent; on one, only an HTTP/2 server's word counts.
func (e *evidence) unsent(err error) bool {
	switch {
	case e.answered.Load():
		return false
	case e.connected.Load():
		return refusedStream(err)
	}
	return e.asked.Load() || neverConnected(err) || refusedStream(err)
}

// neverConnected reports whether an error says by itself that no connection came about.
func neverConnected(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "dial" || op.Op == "proxyconnect") {
		return true
	}
	_, dns := errors.AsType[*net.DNSError](err)
	return dns || errors.Is(err, syscall.ECONNREFUSED)
}

// streamError has the shape of the HTTP/2 stream errors of net/http, which errors.As can convert to any such type.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "http2: stream error" }

// refusedStream reports REFUSED_STREAM, with which a server says that it did not process the request (RFC 9113,
// section 8.7).
func refusedStream(err error) bool {
	const refused = 0x7
	e, ok := errors.AsType[streamError](err)
	return ok && e.Code == refused
}

// transportError is an attempt that brought no answer.
type transportError struct {
	err   error
	again bool // the request may be repeated
}

func (e *transportError) Error() string { return e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// redact takes user and query out of the URL that http.Client puts into its errors.
func redact(err error) error {
	e, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	at := ""
	if u, err := url.Parse(e.URL); err == nil {
		at = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	}
	return &url.Error{Op: e.Op, URL: at, Err: e.Err}
}
