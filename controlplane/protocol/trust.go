package protocol

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
)

// Errors of Trust, beside those of a verification.
var (
	ErrOlder   = errors.New("protocol: the revision is older than the newest one seen")
	ErrAnother = errors.New("protocol: the envelope is for another document")
	ErrTwice   = errors.New("protocol: two contents have the same revision number")
)

// restored is the remedy for a server that has forgotten revisions.
const restored = "if the server's store was restored from a backup, publish the document until its revision is above %d"

// Trust accepts the envelopes of one document in the order of their revisions. It is not safe for concurrent use.
type Trust struct {
	document string
	fixed    bool // the keys were configured
	keys     []ed25519.PublicKey
	newest   *Envelope
}

// NewTrust makes a Trust in configured keys. Without keys it trusts the key of the first envelope.
func NewTrust(document string, keys ...ed25519.PublicKey) *Trust {
	return &Trust{document: document, fixed: len(keys) > 0, keys: slices.Clone(keys)}
}

// Pin trusts keys that an earlier Trust has pinned, unless keys were configured.
func (t *Trust) Pin(keys []ed25519.PublicKey) {
	if !t.fixed {
		t.keys = slices.Clone(keys)
	}
}

// Keys returns the trusted keys.
func (t *Trust) Keys() []ed25519.PublicKey { return slices.Clone(t.keys) }

// Newest returns the newest envelope accepted, or nil.
func (t *Trust) Newest() *Envelope { return t.newest }

// Check refuses an envelope for another document, and one that no trusted key has signed. Its revision may be any: it does not come
// into force.
func (t *Trust) Check(e *Envelope) error {
	if e.Document != t.document {
		return fmt.Errorf("%w: %q, not %q", ErrAnother, e.Document, t.document)
	}
	return e.Verify(t.keys...)
}

// Accept makes an envelope the newest. It refuses one for another document, one that no trusted key has signed, an older one,
// and one with the number of the newest but another content; then nothing changes.
func (t *Trust) Accept(e *Envelope) error {
	if err := t.Check(e); err != nil {
		return err
	}
	if t.newest != nil && e.Revision < t.newest.Revision {
		return fmt.Errorf("%w: %d after %d; "+restored, ErrOlder, e.Revision, t.newest.Revision, t.newest.Revision)
	}
	if t.newest != nil && e.Revision == t.newest.Revision && e.Body != t.newest.Body {
		return fmt.Errorf("%w: %d; "+restored, ErrTwice, e.Revision, e.Revision)
	}
	if !t.fixed {
		t.keys = []ed25519.PublicKey{e.Key} // the first key, or one that it has endorsed
	}
	t.newest = e
	return nil
}
