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
	client = cmp.Or(client, &http.Client{Transport: Checked()})
	if client.CheckRedirect != nil {
		return client
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// checkTime is how long an HTTP/2 connection may be silent before it is checked, and how long the check may take.
const checkTime = 15 * time.Second

// checks makes a transport give up HTTP/2 connections that are dead. net/http would send one request after the other on them until the
// kernel notices, which can take a quarter of an hour.
func checks(own *http.HTTP2Config) *http.HTTP2Config {
	c := http.HTTP2Config{}
	if own != nil {
		c = *own
	}
	c.SendPingTimeout, c.PingTimeout = cmp.Or(c.SendPingTimeout, checkTime), cmp.Or(c.PingTimeout, checkTime)
	return &c
}

// checked is the transport that Checked returned last.
var checked struct {
	sync.Mutex
	of, own *http.Transport
}

// Checked returns http.DefaultTransport as it is when first used, except that it gives up HTTP/2 connections that are dead. A program's
// own checks of connections stay.
func Checked() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program has replaced it
		return http.DefaultTransport
	}
	checked.Lock()
	defer checked.Unlock()
	if checked.of != t {
		checked.of, checked.own = t, t.Clone()
		checked.own.HTTP2 = checks(t.HTTP2)
	}
	return checked.own
}
