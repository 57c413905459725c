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
)

// cache is the last known good on disk: a line with the SHA-256 of the rest, then JSON.
type cache struct {
	path   string
	origin string // whose policies they are: those of another control plane are not taken
}

type cached struct {
	Origin string            `json:"origin"`
	Bodies map[string]string `json:"bodies"`
}

const cacheHeader = "tenet-policies 1 "

// load returns what was saved, or nothing where there is no file yet. A file that is not exactly what save wrote for the
// same origin is refused as a whole.
func (c *cache) load() (map[string]string, error) {
	data, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("controlplane: cache: %w", err)
	}
	header, payload, _ := bytes.Cut(data, []byte("\n"))
	if string(header) != cacheHeader+digest(payload) {
		return nil, fmt.Errorf("controlplane: cache %s: the content does not match its hash; it is ignored and will be written anew", c.path)
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
		err = replaceFile(c.path, []byte(cacheHeader+digest(payload)+"\n"), payload)
	}
	if err != nil {
		return fmt.Errorf("controlplane: cache: %w", err)
	}
	return nil
}

func replaceFile(path string, parts ...[]byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(bytes.Join(parts, nil))
	if err == nil {
		err = f.Sync() // else a crash could leave the new name on an empty file
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
