package controlplane

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/files"
)

// serverCache is the file at ServerOptions.CachePath.
type serverCache struct {
	Client  string              `json:"client"` // the default client ID
	Trusted []ed25519.PublicKey `json:"trusted,omitempty"`
	ETag    string              `json:"etag"`
	// Envelope is the last good revision as the server signed it.
	Envelope *protocol.Envelope `json:"envelope"`
}

// recall reads the file, takes the client ID from it, and returns the revision in it if it is signed by a trusted key.
func (f *follower) recall() *protocol.Envelope {
	kept, err := f.read()
	f.o.ClientID = cmp.Or(f.o.ClientID, kept.Client, defaultClientID())
	if err != nil {
		f.faults.fault(aboutCache, err.Error(), err)
		return nil
	}
	return kept.Envelope
}

func (f *follower) read() (serverCache, error) {
	if f.o.CachePath == "" {
		return serverCache{}, nil
	}
	data, err := files.Read(f.o.CachePath, maxCache)
	if errors.Is(err, fs.ErrNotExist) {
		return serverCache{}, nil
	}
	var kept serverCache
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err == nil && protocol.CheckClient(kept.Client, nil) != nil {
		kept.Client, err = "", errors.New("the client ID cannot be used")
	}
	if err == nil && kept.Envelope != nil {
		err = f.trustKept(&kept)
	}
	if err != nil {
		return serverCache{Client: kept.Client}, fmt.Errorf("controlplane: cache %s: %w; it is ignored and will be overwritten", f.o.CachePath, err)
	}
	return kept, nil
}

// trustKept accepts the revision on disk if a configured key signed it, or the key that is pinned in the file.
func (f *follower) trustKept(kept *serverCache) error {
	if len(kept.Trusted) == 0 {
		return errors.New("it does not say which key to trust")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trust.Pin(kept.Trusted)
	if err := f.trust.Accept(kept.Envelope); err != nil {
		f.trust.Pin(nil)
		return err
	}
	f.etag = kept.ETag
	return nil
}

// save replaces the file by the newest revision. The caller holds mu.
func (f *follower) save() {
	if f.o.CachePath == "" {
		return
	}
	data, err := json.Marshal(serverCache{Client: f.o.ClientID, Trusted: f.trust.Keys(), ETag: f.etag, Envelope: f.trust.Newest()})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.o.CachePath), 0o700)
	}
	if err == nil {
		err = files.Write(f.o.CachePath, data)
	}
	if err != nil {
		err = fmt.Errorf("controlplane: cache: %w", err)
	}
	f.faults.cacheSaved(err)
}
