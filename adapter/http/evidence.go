package tenethttp

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"syscall"

	"github.com/tenetdev/tenet/internal/netguard"
)

// evidence collects the transport's trace of one attempt, to prove that a request was not sent.
type evidence struct {
	asked     atomic.Bool // the transport looked for a connection, so it calls the trace
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

// unsent reports whether the failed attempt's request provably reached no server. Without a connection nothing was sent; on
// a connection, only an HTTP/2 server's REFUSED_STREAM is proof.
func (e *evidence) unsent(err error) bool {
	switch {
	case e.answered.Load():
		return false
	case e.connected.Load():
		return refusedStream(err)
	}
	return e.asked.Load() || neverConnected(err) || refusedStream(err)
}

// neverConnected reports whether the error itself shows that there was no connection.
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

// transportError is the error of an attempt without an answer.
type transportError struct {
	err   error
	again bool // the request may be repeated
}

func (e *transportError) Error() string { return e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// redact takes user and query out of the URLs that http.Client puts into its errors.
func redact(err error) error {
	e, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	at := ""
	if u, err := url.Parse(e.URL); err == nil {
		at = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	}
	return &url.Error{Op: e.Op, URL: at, Err: netguard.Cause(e)}
}
