package controlplane

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/fanout"
	"github.com/tenetdev/tenet/policy"
)

// follower keeps the newest revision of a server's document. It is the DocumentStore of a [Server].
type follower struct {
	o      ServerOptions
	getter *getter
	faults *reports
	bell   fanout.Bell // rings after every change of newest or fault

	mu      sync.Mutex // guards the fields below
	trusted []ed25519.PublicKey
	newest  *protocol.Envelope // nil until one has been verified
	etag    string             // of newest
	fault   error              // why the server's revision is not known; nil while it is
	heard   time.Time          // when the server answered last
	state   clientState
}

// clientState is what the server is told.
type clientState struct {
	applied, refused int64
	reason           string
}

func newFollower(o ServerOptions, g *getter, faults *reports) *follower {
	return &follower{o: o, getter: g, faults: faults, trusted: o.Keys}
}

// Load implements DocumentStore. It waits for the first answer of the server.
func (f *follower) Load(ctx context.Context) (data []byte, revision string, err error) {
	changes := f.bell.Listen(ctx)
	for {
		f.mu.Lock()
		newest, fault, heard := f.newest, f.fault, f.heard
		f.mu.Unlock()
		switch {
		case fault != nil:
			return nil, "", fault
		case newest != nil && !heard.IsZero():
			return []byte(newest.Body), strconv.FormatInt(newest.Revision, 10), nil
		}
		if _, open := <-changes; !open {
			return nil, "", errNoAnswer
		}
	}
}

// Watch implements DocumentStore.
func (f *follower) Watch(ctx context.Context) (<-chan struct{}, error) {
	return f.bell.Listen(ctx), nil
}

// Errors of revisions that a server must not send.
var (
	errOlder     = fmt.Errorf("%w: the revision is older than the newest one seen", policy.ErrPolicyFetchFailed)
	errAnother   = fmt.Errorf("%w: the envelope is for another document", policy.ErrPolicyFetchFailed)
	errTwoBodies = fmt.Errorf("%w: two contents have the same revision number", policy.ErrPolicyFetchFailed)
)

// accept verifies an encoded envelope and makes it the newest. It reports whether the revision is new.
func (f *follower) accept(encoded []byte) (isNew bool, err error) {
	e, err := protocol.ReadEnvelope(encoded)
	if err != nil {
		return false, fmt.Errorf("%w: %w", policy.ErrPolicyFetchFailed, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(e, f.trusted); err != nil {
		return false, err
	}
	isNew = f.newest == nil || e.Revision > f.newest.Revision
	f.keep(e, protocol.ETag(encoded))
	f.answered()
	return isNew, nil
}

// check refuses an envelope that is not signed, for another document, or older than the newest. The caller holds mu.
func (f *follower) check(e *protocol.Envelope, trusted []ed25519.PublicKey) error {
	if e.Document != f.o.Document {
		return errAnother
	}
	if err := e.Verify(trusted...); err != nil {
		return fmt.Errorf("%w: %w", policy.ErrPolicyFetchFailed, err)
	}
	switch {
	case f.newest == nil || e.Revision > f.newest.Revision:
		return nil
	case e.Revision < f.newest.Revision:
		return fmt.Errorf("%w: %d after %d", errOlder, e.Revision, f.newest.Revision)
	case e.Body != f.newest.Body:
		return errTwoBodies
	}
	return nil
}

// keep makes a verified envelope the newest. The caller holds mu.
func (f *follower) keep(e *protocol.Envelope, etag string) {
	f.newest, f.etag = e, etag
	if len(f.o.Keys) == 0 {
		f.trusted = []ed25519.PublicKey{e.Key} // the first key, or one that it has endorsed
	}
}

// answered notes that the server's newest revision is known. The caller holds mu.
func (f *follower) answered() {
	f.heard, f.fault = time.Now(), nil
	f.bell.Ring()
}

// alive notes that the server has answered. upToDate says that the newest revision is still the server's: the first
// heartbeat of a stream does not say so, since a revision may follow it.
func (f *follower) alive(upToDate bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.heard.IsZero()
	f.heard = time.Now()
	cleared := f.fault != nil && f.newest != nil && (upToDate || errors.Is(f.fault, policy.ErrProviderUnavailable))
	if cleared {
		f.fault = nil
	}
	if first || cleared {
		f.bell.Ring()
	}
}

// failed notes why the server's revision is not known.
func (f *follower) failed(err error) {
	if !errors.Is(err, policy.ErrProviderUnavailable) && !errors.Is(err, policy.ErrPolicyNotFound) && !errors.Is(err, policy.ErrPolicyFetchFailed) {
		err = fmt.Errorf("%w: %w", policy.ErrProviderUnavailable, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = err
	f.bell.Ring()
}

// settle notes whether a revision could be used, and saves it if so.
func (f *follower) settle(number int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.state.refused, f.state.reason = number, err.Error()
		return
	}
	f.state = clientState{applied: number}
	if f.newest != nil && f.newest.Revision == number {
		f.save()
	}
}

func (f *follower) status() ServerStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := ServerStatus{Number: f.state.applied, Refused: f.state.refused, ClientID: f.o.ClientID}
	if !f.heard.IsZero() {
		s.Staleness = time.Since(f.heard)
	}
	return s
}
