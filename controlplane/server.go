package controlplane

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// ServerOptions configure [NewServer]. URL and Document are required.
type ServerOptions struct {
	// URL of the server: https://host[:port][/path]. Document is the name of the document to follow.
	URL, Document string
	// Token is sent as a bearer token. It never appears in errors or logs.
	Token string
	// Client for requests. Default a new http.Client on http.DefaultTransport, but an HTTP/2 connection that is dead is given up within
	// 30 s. Redirects are not followed unless the client sets CheckRedirect. Its Timeout cuts streams off, which the provider survives.
	Client *http.Client
	// ClientID names this program to the server, which chooses clients for rollouts by it. It should stay the same across
	// restarts. Default the host's name and a random number, kept in the file at CachePath.
	ClientID string
	// Labels describe this program; rollouts can choose by them.
	Labels map[string]string
	// Keys are the server's public keys. Without keys the first key seen is trusted, and kept in the file at CachePath.
	// A key that a trusted one endorses is trusted too.
	Keys []ed25519.PublicKey
	// CachePath is a file that keeps the signed last good revision for the next start, readable by its owner only. Each
	// program needs its own. Default none.
	CachePath string
	// ReportInterval is the time between reports of what calls did. Default 5 s.
	ReportInterval time.Duration
	// MinBackoff and MaxBackoff bound the waits, which double and are drawn at random, after failures. Defaults 500 ms and
	// 30 s. With Retry-After a server can ask for up to five minutes; up to half of that is added at random.
	MinBackoff, MaxBackoff time.Duration
	// Limits by surface, wider or narrower than the built-in ones, which apply to absent surfaces.
	Limits map[policy.Surface]policy.Limits
	// OnChange is called with every new document after it has come into force, OnError once for every distinct fault. They
	// are called on the provider's goroutines and must not call Reload or Close.
	OnChange func(*policy.Set)
	OnError  func(error)
	// Logger for the same. Default slog.Default().
	Logger *slog.Logger
}

// Server is a provider of a document that a Tenet server delivers. Create it with [NewServer].
type Server struct {
	*live
	follower *follower
	counter  *counter
}

// ServerStatus is the state of a [Server].
type ServerStatus struct {
	Status
	// Number of the revision in force; 0 while there is none. Refused is a newer revision that cannot be used; Status.LastError
	// says why.
	Number, Refused int64
	// Staleness is how long ago the provider last heard from the server: 0 if it never has since it was made.
	Staleness time.Duration
	// ClientID is the name under which the server knows this program.
	ClientID string
}

// NewServer makes a provider and starts goroutines that follow the document and report to the server until Close. It does not
// wait for the server: an error means that an option is wrong, or that the file at CachePath names another document.
//
// The provider follows a stream of server-sent events; where that does not work, because of a proxy for example, it falls back
// to long polls and then to conditional GETs, and tries the stream again after some minutes.
//
// It verifies the signature of every revision, also of the one on disk, and never goes back to an older one. A revision that
// cannot be used is refused, which the server is told; the one before stays in force.
func NewServer(o ServerOptions) (*Server, error) {
	getter, err := newGetter(RemoteOptions{URL: o.URL, Token: o.Token, Client: o.Client})
	if err == nil {
		err = protocol.CheckName(o.Document)
	}
	if err == nil {
		o.Labels = maps.Clone(o.Labels)
		err = protocol.CheckClient(cmp.Or(o.ClientID, "client"), o.Labels)
	}
	if err != nil {
		return nil, err
	}
	defaultTo(&o.ReportInterval, 5*time.Second)
	defaultTo(&o.MinBackoff, defaultMinBackoff)
	defaultTo(&o.MaxBackoff, defaultMaxBackoff)
	name := getter.base + protocol.LivePath(o.Document)
	faults := newReports(o.OnError, o.Logger)
	f := newFollower(o, getter, faults)
	s := &Server{follower: f, counter: &counter{mechanisms: newMechanisms(), pipelines: newPipelines()}}
	s.live = newLive(f, liveOptions{
		name: name, source: policy.SourceRemote, interval: time.Minute, timeout: defaultTimeout, lowPause: time.Minute, maxPause: time.Minute,
		limits: o.Limits, onChange: o.OnChange, tried: s.tried,
	}, faults, nil)
	if kept := f.recall(); kept != nil {
		if err := s.adopt([]byte(kept.Body)); err != nil {
			faults.fault(aboutCache, err.Error(), err)
		} else {
			s.tried(strconv.FormatInt(kept.Revision, 10), nil)
		}
	}
	s.group.Go(s.follow)
	s.group.Go(func() { f.run(s.ctx) })
	s.group.Go(func() { s.report(s.ctx) })
	return s, nil
}

// defaultClientID is a new name for this program.
func defaultClientID() string {
	host, err := os.Hostname()
	if err != nil || protocol.CheckClient(host, nil) != nil {
		host = "client"
	}
	return host + "-" + rand.Text()[:8]
}

// tried notes the outcome for a revision that was read.
func (s *Server) tried(revision string, err error) {
	number, _ := strconv.ParseInt(revision, 10, 64)
	s.follower.settle(number, err)
	if err == nil {
		s.counter.begin(number)
	}
}

// Observer returns an observer that counts calls, failures, extra attempts, openings of breakers and latencies for the server,
// which judges rollouts by them, and notes the state of breakers, budgets and limits and the totals of pipelines, which the server
// shows. Give it to every executor that uses this provider.
func (s *Server) Observer() observe.Observer { return s.counter }

// Trial provides the policies of the revision that the server has under trial, and none while it has none. Give it to executors as
// retry.ExecutorOptions.Shadow, beside Observer, which counts what the revision would decide otherwise and reports it. A trial begins
// and ends with the answer to a report: within 30 s.
func (s *Server) Trial() policy.Provider { return &s.counter.trial }

// Status returns which revision is in force, why a newer one is not, and how old the provider's knowledge is.
func (s *Server) Status() ServerStatus {
	status := s.follower.status()
	status.Status = s.live.Status()
	return status
}

// Reload puts the newest revision that has arrived in force. The provider does so by itself: Reload is for programs that
// reload every provider in the same way.
func (s *Server) Reload(ctx context.Context) error { return s.live.Reload(ctx) }

var _ interface {
	policy.Provider
	policy.Versioned
	policy.SetProvider
} = (*Server)(nil)

// String returns the address and the document, without secrets.
func (o ServerOptions) String() string { return fmt.Sprintf("%s, document %s", o.URL, o.Document) }

// GoString returns what String does, so that %#v does not print the token.
func (o ServerOptions) GoString() string { return o.String() }
