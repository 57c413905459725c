package netguard

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// ForbiddenAddressError reports a request to an address that must not be reached.
type ForbiddenAddressError struct{ Address string }

// Error implements error.
func (e *ForbiddenAddressError) Error() string {
	return fmt.Sprintf("address %s is private, local or otherwise special", e.Address)
}

// special lists the ranges that netip has no method for (IANA special-purpose registries).
var special = func() (list []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"192.88.99.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// unicast is where all public IPv6 addresses are. Outside of it are site-local addresses and others that carry an IPv4 one.
var unicast = netip.MustParsePrefix("2000::/3")

// public reports whether an address belongs to the open Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || !a.IsGlobalUnicast() {
		return false
	}
	if a.Is6() && !unicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// guard is a net.Dialer.Control function: it sees the address that is really dialled.
func guard(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("dialled address %q: %w", address, err)
	}
	a, err := netip.ParseAddr(host)
	if err != nil || !public(a) {
		return &ForbiddenAddressError{Address: host}
	}
	return nil
}

// Transport makes connections of its own: without a proxy, which would hide the address that is reached. It sends every
// request once, waits 10 s for a connection and 10 s for its handshake, and gives up HTTP/2 connections that are dead. With allowPrivate it
// reaches every address.
func Transport(allowPrivate bool) http.RoundTripper {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	if !allowPrivate {
		dialer.Control = guard
	}
	return once{&http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 256, MaxIdleConnsPerHost: 64,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, HTTP2: checks(nil),
	}}
}

// once sends every request once. On a connection that was used before, net/http would repeat a request with an idempotency
// key by itself when the connection breaks: an attempt that no policy allowed and no history shows. Requests without a body
// are the exception; there is no way to keep net/http from it.
type once struct{ *http.Transport }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	plain := *req
	plain.GetBody = nil // redirects are followed above this and keep theirs
	return o.Transport.RoundTrip(&plain)
}
