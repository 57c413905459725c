package audit

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/canonical"
)

// headsContext prefixes the signed message, so that a signature over heads is not valid for anything else.
const headsContext = "tenet audit heads v1\n"

// Errors of head files.
var (
	ErrSignature = errors.New("audit: the signature of the heads does not match the key")
	ErrUnsigned  = errors.New("audit: the heads are not signed")
)

// SignedHeads holds the heads of all chains at one time. Keep it apart from the log: with it, [Verify] detects events that were
// cut off at the end of a chain. `tenet audit head` prints its JSON form, and `tenet audit verify --head` reads it.
type SignedHeads struct {
	Version   int       `json:"version"` // 1
	Time      time.Time `json:"timestamp"`
	Heads     []Head    `json:"heads"`
	PublicKey []byte    `json:"public_key,omitempty"` // Ed25519; base64 in JSON, like the signature
	Signature []byte    `json:"signature,omitempty"`  // over the canonical JSON of the other members
}

// SignHeads returns the heads, signed with Ed25519 (RFC 8032) unless key is nil. It returns an error if the key has the wrong
// size.
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

// VerifyHeads reads the JSON form. With a trusted key, it returns [ErrUnsigned] or [ErrSignature] unless that key signed
// exactly these heads. Without one (nil), it checks a signature against the public key in the file, which does not prove who
// signed.
func VerifyHeads(data []byte, trusted ed25519.PublicKey) (SignedHeads, error) {
	var s SignedHeads
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("audit: heads: not a file that tenet audit head has written: %w", err)
	}
	if s.Version != 1 {
		return s, fmt.Errorf("audit: heads: unknown version %d; this release reads version 1", s.Version)
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
