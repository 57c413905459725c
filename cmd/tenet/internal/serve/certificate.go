package serve

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/files"
)

// certificate is the server's certificate. It is read again when its files change, so that a renewal needs no restart.
type certificate struct {
	cert, key string // files
	log       *slog.Logger

	mu       sync.Mutex
	pair     *tls.Certificate
	modified [2]time.Time // of the files from which pair was read
	fault    string       // of the last reading, "" if it succeeded
}

// tls reads the certificate. It returns nil for a server without one.
func (f *serverFlags) tls(log *slog.Logger) (*tls.Config, error) {
	switch {
	case f.cert == "" && f.key == "":
		return nil, nil
	case f.cert == "" || f.key == "":
		return nil, cli.Usagef("--tls-cert and --tls-key belong together")
	}
	c := &certificate{cert: f.cert, key: f.key, log: log}
	if err := c.read(c.files()); err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}, nil
}

// get implements tls.Config.GetCertificate. While the files cannot be read, as in the middle of a renewal, the certificate before stays.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	modified := c.files()
	if modified == c.modified {
		return c.pair, nil
	}
	switch err := c.read(modified); {
	case err == nil:
		c.fault = ""
		c.log.Info("the certificate was renewed", "file", c.cert, "expires", c.pair.Leaf.NotAfter)
	case err.Error() != c.fault:
		c.fault = err.Error()
		c.log.Warn("the certificate has changed and cannot be read; the one before is used", "error", err)
	}
	return c.pair, nil
}

// files returns when the files were modified, or zero for one that is missing.
func (c *certificate) files() (modified [2]time.Time) {
	for i, file := range []string{c.cert, c.key} {
		if info, err := os.Stat(file); err == nil {
			modified[i] = info.ModTime()
		}
	}
	return modified
}

func (c *certificate) read(modified [2]time.Time) error {
	cert, err := files.Read(c.cert, cli.MaxInput)
	if err != nil {
		return err
	}
	key, err := files.Read(c.key, cli.MaxInput)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%w; name the PEM file of a certificate, with its chain, in --tls-cert, and that of its private key in --tls-key", err)
	}
	c.pair, c.modified = &pair, modified
	return nil
}
