package netguard

import (
	"cmp"
	"net/http"
	"sync"
	"time"
)

// WithoutRedirects returns a client that does not follow redirects: net/http would send custom headers to other hosts. A client
// with a CheckRedirect stays as it is; nil is a new client, whose transport is http.DefaultTransport with checks of connections.
func WithoutRedirects(client *http.Client) *http.Client {
	client = cmp.Or(client, &http.Client{Transport: checked()})
	if client.CheckRedirect != nil {
		return client
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// checkTime is how long an HTTP/2 connection may be silent before it is checked, and how long the check may take.
const checkTime = 15 * time.Second

// checked is http.DefaultTransport as it is when first used, except that it gives up HTTP/2 connections that are dead. net/http would
// send one request after the other on them until the kernel notices, which can take a quarter of an hour.
var checked = sync.OnceValue(func() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has replaced it
		return http.DefaultTransport
	}
	t = t.Clone()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: checkTime, PingTimeout: checkTime}
	return t
})
