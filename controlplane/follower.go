package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
)

// follower keeps the newest revision of a server's document. It is the DocumentStore of a [Server].
type follower struct {
	o      ServerOptions
	getter *getter
	faults *reports
	bell   wait.Bell // rings after every change of newest or fault

	mu    sync.Mutex      // guards the fields below
	trust *protocol.Trust // holds the newest revision
	etag  string          // of the newest revision
	fault error           // why the server's revision is not known; nil while it is
	heard time.Time       // when the server answered last
	state clientState
}

// clientState is what the server is told.
type clientState struct {
	applied, refused int64
	reason           string
}

func newFollower(o ServerOptions, g *getter, faults *reports) *follower {
	return &follower{o: o, getter: g, faults: faults, trust: protocol.NewTrust(o.Document, o.Keys...)}
}

// Load implements DocumentStore. It waits for the first answer of the server.
func (f *follower) Load(ctx context.Context) (data []byte, revision string, err error) {
	changes := f.bell.Listen(ctx)
	for {
		f.mu.Lock()
		newest, fault, heard := f.trust.Newest(), f.fault, f.heard
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

// accept verifies an encoded envelope and makes it the newest. It reports whether the revision is new.
func (f *follower) accept(encoded []byte) (isNew bool, err error) {
	e, err := protocol.ReadEnvelope(encoded)
	if err != nil {
		return false, fmt.Errorf("%w: %w", policy.ErrPolicyFetchFailed, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.trust.Newest()
	if err := f.trust.Accept(e); err != nil {
		return false, fmt.Errorf("%w: %w", policy.ErrPolicyFetchFailed, err)
	}
	f.etag, f.heard, f.fault = protocol.ETag(encoded), time.Now(), nil
	f.bell.Ring()
	return old == nil || e.Revision > old.Revision, nil
}

// alive notes that the server has answered. upToDate says that the newest revision is still the server's: the first
// heartbeat of a stream does not say so, since a revision may follow it.
func (f *follower) alive(upToDate bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.heard.IsZero()
	f.heard = time.Now()
	cleared := f.fault != nil && f.trust.Newest() != nil && (upToDate || errors.Is(f.fault, policy.ErrProviderUnavailable))
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
	if newest := f.trust.Newest(); newest != nil && newest.Revision == number {
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
