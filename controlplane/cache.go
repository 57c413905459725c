package controlplane

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenetdev/tenet/internal/files"
)

// cache is the last known good on disk: a line with the SHA-256 of the rest, then JSON.
type cache struct {
	path   string
	origin string // the source of the policies; those of another source are refused
}

type cached struct {
	Origin string            `json:"origin"`
	Bodies map[string]string `json:"bodies"`
}

const (
	cacheHeader = "tenet-policies 1 "
	maxCache    = 64 << 20 // bytes
)

// load returns the saved bodies, or nil if there is no file yet. It refuses a file that differs from what save wrote, or that
// was written for another origin.
func (c *cache) load() (map[string]string, error) {
	data, err := files.Read(c.path, maxCache)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("controlplane: cache: %w", err)
	}
	header, payload, _ := bytes.Cut(data, []byte("\n"))
	if string(header) != cacheHeader+digest(payload) {
		return nil, fmt.Errorf("controlplane: cache %s: the content does not match its hash; it is ignored and will be overwritten", c.path)
	}
	var content cached
	if err := json.Unmarshal(payload, &content); err != nil {
		return nil, fmt.Errorf("controlplane: cache %s: %w", c.path, err)
	}
	if content.Origin != c.origin {
		return nil, fmt.Errorf("controlplane: cache %s: it was written for %s, not for %s; use one path for each source", c.path, content.Origin, c.origin)
	}
	return content.Bodies, nil
}

// save replaces the file in one step; only its owner can read it.
func (c *cache) save(bodies map[string]string) error {
	payload, err := json.Marshal(cached{Origin: c.origin, Bodies: bodies})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.path), 0o700)
	}
	if err == nil {
		err = files.Write(c.path, []byte(cacheHeader+digest(payload)+"\n"), payload)
	}
	if err != nil {
		return fmt.Errorf("controlplane: cache: %w", err)
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
