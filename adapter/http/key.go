package tenethttp

import (
	"cmp"
	"net/http"
	"strings"
	"sync"

	"github.com/tenetdev/tenet/policy"
)

// MaxKeys is how many keys the default key function of a [Transport] tells apart.
const MaxKeys = 256

// NewKeyFunc makes a function that names requests by method, host and route, in the form of net/http's patterns:
// "GET api.example.com/users/{id}". The route is the request's Pattern where it has one, else its path, in which {id}
// takes the place of segments that look like identifiers: numbers, dates, UUIDs, addresses with an @, hexadecimal of 8
// characters or more with a digit in it, mixtures of letters and digits of 16 or more, anything above 40. The query
// is ignored.
//
// It tells at most max routes apart (at least 1). Later ones are "host/other", for at most max hosts, and then "other".
// policy.ParseKey makes the keys from these strings, so a document can name them. The function is safe for concurrent use and
// remembers the routes for as long as it is referenced.
func NewKeyFunc(max int) func(*http.Request) policy.Key {
	seen := routes{max: max, full: map[string]bool{}, hosts: map[string]bool{}}
	return func(r *http.Request) policy.Key { return policy.ParseKey(seen.name(hostOf(r), routeOf(r))) }
}

// routes bounds the names in use.
type routes struct {
	max int

	mu          sync.RWMutex // guards what follows
	full, hosts map[string]bool
}

func (s *routes) name(host, route string) string {
	s.mu.RLock()
	known := s.full[route]
	s.mu.RUnlock()
	if known {
		return route
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if admit(s.full, route, s.max) {
		return route
	}
	if other := host + "/other"; admit(s.hosts, other, s.max) {
		return other
	}
	return "other"
}

func admit(known map[string]bool, name string, max int) bool {
	if !known[name] && len(known) >= max && len(known) > 0 {
		return false
	}
	known[name] = true
	return true
}

func hostOf(r *http.Request) string {
	host := r.Host
	if r.URL != nil && r.URL.Host != "" {
		host = r.URL.Host
	}
	return strings.ToLower(host)
}

func routeOf(r *http.Request) string {
	method, path := cmp.Or(r.Method, http.MethodGet), ""
	if r.Pattern == "" {
		if r.URL != nil {
			path = template(r.URL.Path)
		}
		return method + " " + hostOf(r) + path
	}
	path = r.Pattern
	if m, rest, ok := strings.Cut(r.Pattern, " "); ok {
		method, path = m, strings.TrimLeft(rest, " \t")
	}
	if strings.HasPrefix(path, "/") {
		path = hostOf(r) + path
	}
	return method + " " + path
}

// template replaces the segments of a path that look like identifiers.
func template(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if isID(s) {
			segments[i] = "{id}"
		}
	}
	return strings.Join(segments, "/")
}

func isID(s string) bool {
	letters, digits, hex := 0, 0, true
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z':
			letters++
			hex = hex && (r|0x20) <= 'f'
		case r == '@':
			return true
		case r == '-': // of UUIDs
		default:
			hex = false
		}
	}
	switch {
	case len(s) > 40:
		return true
	case digits == 0:
		return false
	case letters == 0, hex && len(s) >= 8:
		return true
	}
	return len(s) >= 16 && digits > 1
}
