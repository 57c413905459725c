package audit

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/canonical"
)

// headsContext keeps a signature over heads from being taken for one over anything else.
const headsContext = "tenet audit heads v1\n"

// Errors of head files.
var (
	ErrSignature = errors.New("audit: the heads are not signed by this key")
	ErrUnsigned  = errors.New("audit: the heads are not signed")
)

// SignedHeads are the ends of chains at one time, kept apart from the log so that a cut-off tail is noticed later. The JSON
// form is what `tenet audit head` prints and `tenet audit verify --head` takes.
type SignedHeads struct {
	Version   int       `json:"version"` // 1
	Time      time.Time `json:"timestamp"`
	Heads     []Head    `json:"heads"`
	PublicKey []byte    `json:"public_key,omitempty"` // Ed25519; both in base64
	Signature []byte    `json:"signature,omitempty"`  // over the canonical JSON of the rest
}

// SignHeads makes the heads' form, signed with Ed25519 (RFC 8032) where key is not nil. A key of the wrong size is an error.
func SignHeads(heads []Head, now time.Time, key ed25519.PrivateKey) (SignedHeads, error) {
	s := SignedHeads{Version: 1, Time: microseconds(now), Heads: heads}
	if s.Heads == nil {
		s.Heads = []Head{}
	}
	if key == nil {
		return s, nil
	}
	if len(key) != ed25519.PrivateKeySize {
		return s, fmt.Errorf("audit: an Ed25519 private key has %d bytes, not %d", ed25519.PrivateKeySize, len(key))
	}
	s.PublicKey, _ = key.Public().(ed25519.PublicKey)
	message, err := s.message()
	if err != nil {
		return s, err
	}
	s.Signature = ed25519.Sign(key, message)
	return s, nil
}

// VerifyHeads reads the JSON form. With a trusted key it fails with [ErrUnsigned] or [ErrSignature] unless that key signed
// exactly these heads. Without one (nil) a signature must fit the public key that comes with it, which says nothing about
// who made it.
func VerifyHeads(data []byte, trusted ed25519.PublicKey) (SignedHeads, error) {
	var s SignedHeads
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("audit: heads: %w", err)
	}
	if s.Version != 1 {
		return s, fmt.Errorf("audit: heads: version %d is not known here", s.Version)
	}
	if s.Signature == nil && trusted == nil {
		return s, nil
	}
	if s.Signature == nil {
		return s, ErrUnsigned
	}
	key := trusted
	if key == nil {
		key = s.PublicKey
	}
	message, err := s.message()
	if err != nil { // not reached in tests: what was read from JSON can be written as JSON
		return s, err
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, message, s.Signature) {
		return s, ErrSignature
	}
	return s, nil
}

func (s SignedHeads) message() ([]byte, error) {
	s.Signature = nil
	raw, err := canonical.Marshal(s)
	return append([]byte(headsContext), raw...), err
}
