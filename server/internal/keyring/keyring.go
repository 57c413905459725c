package keyring

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
)

// Keys are the signing keys at one time. They are immutable.
type Keys struct {
	// Version changes with every rotation.
	Version      int64
	private      ed25519.PrivateKey
	endorsements []protocol.Endorsement
}

// Public returns the key that clients have to trust.
func (k *Keys) Public() ed25519.PublicKey {
	public, _ := k.private.Public().(ed25519.PublicKey)
	return public
}

// Sign signs an envelope, and adds the endorsements that lead from older keys to the current one.
func (k *Keys) Sign(e *protocol.Envelope) {
	e.Sign(k.private)
	e.Endorsements = k.endorsements
}

// setting is the name and content of the keys in the store.
const setting = "signing-keys"

type stored struct {
	Seed         []byte                 `json:"seed"` // of the key that signs
	Endorsements []protocol.Endorsement `json:"endorsements,omitempty"`
	Since        time.Time              `json:"since"`
}

// Load returns the keys of a store, and creates them if there are none.
func Load(ctx context.Context, store policystore.Credentials) (*Keys, error) {
	s, err := store.Setting(ctx, setting)
	if errors.Is(err, policystore.ErrNotFound) {
		if s, err = draft(nil); err == nil {
			s, err = store.SaveSetting(ctx, s)
		}
		if errors.Is(err, policystore.ErrConflict) {
			s, err = store.Setting(ctx, setting) // another server was faster
		}
	}
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return read(s)
}

// Rotate replaces the signing key by a new one, which the old key endorses. Clients that trust the old key follow. It calls record before,
// and changes nothing if that returns an error.
func Rotate(ctx context.Context, store policystore.Credentials, record func(from, to ed25519.PublicKey) error) (*Keys, error) {
	old, err := Load(ctx, store)
	if err != nil {
		return nil, err
	}
	s, err := draft(old)
	if err != nil {
		return nil, fmt.Errorf("keyring: rotate: %w", err)
	}
	keys, err := read(s)
	if err != nil {
		return nil, err
	}
	if err := record(old.Public(), keys.Public()); err != nil {
		return nil, err
	}
	if s, err = store.SaveSetting(ctx, s); err != nil {
		return nil, fmt.Errorf("keyring: rotate: %w", err)
	}
	return read(s)
}

// draft makes a new key, endorsed by the old one if there is one.
func draft(old *Keys) (policystore.Setting, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return policystore.Setting{}, err
	}
	s, content := policystore.Setting{Name: setting}, stored{Seed: private.Seed(), Since: policystore.Stamp(time.Now())}
	if old != nil {
		s.Version = old.Version
		content.Endorsements = append([]protocol.Endorsement{protocol.Endorse(old.private, public)}, old.endorsements...)
		content.Endorsements = content.Endorsements[:min(len(content.Endorsements), protocol.MaxEndorsements)]
	}
	s.Value, err = json.Marshal(content)
	return s, err
}

func read(s policystore.Setting) (*Keys, error) {
	var content stored
	if err := json.Unmarshal(s.Value, &content); err != nil || len(content.Seed) != ed25519.SeedSize {
		return nil, errors.New("keyring: the stored signing keys cannot be read")
	}
	return &Keys{Version: s.Version, private: ed25519.NewKeyFromSeed(content.Seed), endorsements: content.Endorsements}, nil
}
