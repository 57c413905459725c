package tenethttp_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policy"
)

// TestUploadsLeaveNoFiles: net/http removes the temporary files of a form only from the request that it made itself.
func TestUploadsLeaveNoFiles(t *testing.T) {
	guard, err := idempotency.NewGuard(memory.Open().Idempotency(), idempotency.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, middleware := range map[string]func(http.Handler) http.Handler{
		"Shed":       tenethttp.Shed(tenethttp.ServerOptions{Key: func(*http.Request) policy.Key { return key }}),
		"Idempotent": tenethttp.Idempotent(guard, tenethttp.IdempotencyOptions{}),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			stored := 0
			s, client := serve(t, middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if err := r.ParseMultipartForm(1); err != nil {
					t.Error(err)
				}
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Error(err)
				}
				stored = len(entries)
			})).ServeHTTP)
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			part, err := form.CreateFormFile("upload", "a.txt")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := part.Write([]byte(strings.Repeat("x", 100<<10))); err != nil {
				t.Fatal(err)
			}
			form.Close()
			req := request(t, "POST", s.URL, &body)
			req.Header.Set("Content-Type", form.FormDataContentType())
			req.Header.Set(tenethttp.HeaderIdempotencyKey, "upload-1")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			s.Close() // the server has finished the request
			left, err := os.ReadDir(dir)
			if err != nil || stored == 0 || len(left) > 0 {
				t.Errorf("%d files while the handler ran, %d left: %v", stored, len(left), err)
			}
		})
	}
}
