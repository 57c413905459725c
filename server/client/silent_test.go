package client_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/server/client"
)

// roundTripper is a transport made of a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAServerThatNeverAnswersIsGivenUpAfterAMinute: a command waits once, not once for each attempt.
func TestAServerThatNeverAnswersIsGivenUpAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c, err := client.New(client.Options{URL: "http://server", HTTP: &http.Client{Transport: silent}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = c.Tokens(t.Context())
		took := time.Since(begun)
		if err == nil || !strings.Contains(err.Error(), "http://server did not answer within 1m0s") || took != time.Minute {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
