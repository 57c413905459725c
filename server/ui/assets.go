package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed static/* vendor/*
var files embed.FS

// assets are the scripts and styles: embedded, compressed, and named by their content, so that browsers keep them for good.
type assets struct {
	files  map[string]*asset // by name without the fingerprint
	served map[string]*asset // by path
}

type asset struct {
	path, kind string
	plain      []byte
	gzipped    func() []byte // compresses it for the first browser that asks for it
}

var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func loadAssets(prefix string) (*assets, error) {
	a := &assets{files: map[string]*asset{}, served: map[string]*asset{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		kind := kinds[path.Ext(name)]
		if err != nil || d.IsDir() || kind == "" {
			return err
		}
		plain, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		base := path.Base(name)
		ext := path.Ext(base)
		f := &asset{
			path: prefix + "/static/" + strings.TrimSuffix(base, ext) + "." + hex.EncodeToString(sum[:6]) + ext,
			kind: kind, plain: plain, gzipped: sync.OnceValue(func() []byte { return compress(plain) }),
		}
		a.files[base], a.served[f.path] = f, f
		return nil
	})
	return a, err
}

func compress(plain []byte) []byte {
	var small bytes.Buffer
	w, _ := gzip.NewWriterLevel(&small, gzip.BestCompression) // a level that exists
	_, _ = w.Write(plain)                                     // to memory
	_ = w.Close()
	return small.Bytes()
}

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := a.served[r.URL.Path]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.gzipped()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the browser may be gone
}
