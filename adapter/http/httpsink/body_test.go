package httpsink_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/pipeline"
)

type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// slow is a body that ends when its request ends.
type slow struct{ ctx context.Context }

func (s slow) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// endless is an infinite body that counts the bytes read.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	e.n += len(p)
	return len(p), nil
}

// TestDrainingAResponseIsBounded: the status decides the outcome, and the sink drains the body for at most a second.
func TestDrainingAResponseIsBounded(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			large := &endless{}
			for name, body := range map[string]func(*http.Request) io.Reader{
				"slow": func(r *http.Request) io.Reader { return slow{r.Context()} }, "large": func(*http.Request) io.Reader { return large },
			} {
				client := &http.Client{Transport: transport(func(r *http.Request) *http.Response {
					return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body(r)), Request: r, ContentLength: -1}
				})}
				sink, err := httpsink.New("https://example.test/", httpsink.Options{Client: client, Timeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err = sink.Dispatch(t.Context(), pipeline.NewTransaction("a", nil))
				if (err == nil) != (status == http.StatusOK) || time.Since(began) > time.Second || large.n > 64<<10 {
					t.Errorf("%s body of a %d: %v after %v and %d bytes", name, status, err, time.Since(began), large.n)
				}
			}
		})
	}
}
