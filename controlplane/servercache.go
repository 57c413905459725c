package controlplane

import (
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
	if f.o.ClientID == "" {
		f.o.ClientID = kept.Client
	}
	if f.o.ClientID == "" {
		f.o.ClientID = defaultClientID()
	}
	if err != nil {
		f.faults.fault(aboutCache, err.Error(), err)
		return nil
	}
	if kept.Envelope == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(kept.Envelope, kept.ETag)
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
	trusted := f.o.Keys
	if len(trusted) == 0 {
		trusted = kept.Trusted
	}
	if err == nil && kept.Envelope != nil {
		if len(trusted) == 0 {
			err = errors.New("it does not say which key to trust")
		} else {
			err = f.check(kept.Envelope, trusted)
		}
	}
	if err != nil {
		return serverCache{Client: kept.Client}, fmt.Errorf("controlplane: cache %s: %w; it is ignored and will be overwritten", f.o.CachePath, err)
	}
	return kept, nil
}

// save replaces the file by the newest revision. The caller holds mu.
func (f *follower) save() {
	if f.o.CachePath == "" {
		return
	}
	data, err := json.Marshal(serverCache{Client: f.o.ClientID, Trusted: f.trusted, ETag: f.etag, Envelope: f.newest})
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
