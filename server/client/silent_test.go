package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/internal/testhttp"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
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

// TestAnAnswerThatBreaksOffIsGivenUpAfterAMinute: also that of a refusal.
func TestAnAnswerThatBreaksOffIsGivenUpAfterAMinute(t *testing.T) {
	for status, want := range map[int]string{http.StatusOK: "the server has sent nothing for 1m0s", http.StatusNotFound: "not from a Tenet server"} {
		synctest.Test(t, func(t *testing.T) {
			half := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "{")
				<-r.Context().Done()
			})
			c, err := client.New(client.Options{URL: "http://server", HTTP: &http.Client{Transport: testhttp.Transport{Handler: half}}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			begun := time.Now()
			_, err = c.Tokens(ctx)
			if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), want) || took != time.Minute {
				t.Errorf("%d: after %s: %v", status, took, err)
			}
		})
	}
}

// TestAReaderOfTheAuditLogMayTakeItsTime: the server does not wait for ever for it to take an answer, and cuts the answer off.
func TestAReaderOfTheAuditLogMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 5
		cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
			after, _ := strconv.Atoi(r.URL.Query().Get("after"))
			for at := after + 1; at <= all; at++ {
				if _, err := fmt.Fprintf(w, `{"cursor":"%d","event":{"n":`, at); err != nil {
					return
				}
				_, _ = fmt.Fprintf(w, "%d}}\n", at)
			}
		})
		c, err := client.New(client.Options{URL: "http://server", HTTP: &http.Client{Transport: testhttp.Transport{Handler: cut}}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = c.Audit().Read(t.Context(), "", func(cursor string, line []byte) error {
			got = append(got, cursor+string(line))
			time.Sleep(2 * time.Minute)
			return nil
		})
		if want := `1{"n":1} 2{"n":2} 3{"n":3} 4{"n":4} 5{"n":5}`; err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestTheErrorOfAnAnswerThatWasCutOffHasItsCause(t *testing.T) {
	cut := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(iotest.ErrReader(context.Canceled))}, nil
	})
	c, err := client.New(client.Options{URL: "http://server", HTTP: &http.Client{Transport: cut}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Audit().Read(t.Context(), "", func(string, []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestAVerificationOutlivesAServerThatHasNoTimeForAPart, as while others verify: the log may have many parts.
func TestAVerificationOutlivesAServerThatHasNoTimeForAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		busy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 1 {
				w.Header().Set("Retry-After", "5")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, `{"ended":true}`)
		})
		c, err := client.New(client.Options{URL: "http://server", HTTP: &http.Client{Transport: testhttp.Transport{Handler: busy}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Audit().Verify(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
		asked = 0
		if _, err := c.Audit().Replay(t.Context(), api.AuditReplay{}, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestJ24AWatchAsksLessOftenWhileItsStreamsEndAtOnce: also where something else than a server answers.
func TestJ24AWatchAsksLessOftenWhileItsStreamsEndAtOnce(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "text/html"} {
		synctest.Test(t, func(t *testing.T) {
			requests, failed := 0, 0
			brief := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.Header().Set("Content-Type", kind)
				_, _ = io.WriteString(w, ": \n\n")
			})
			c, err := client.New(client.Options{URL: "http://server", HTTP: &http.Client{Transport: testhttp.Transport{Handler: brief}}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			o := job.WatchOptions{After: -1, Failing: func(err error) {
				if err != nil {
					failed++
				}
			}}
			_ = c.Jobs().Watch(ctx, o, func(job.Event) error { return nil })
			if requests > 400 || failed == 0 || kind == "text/html" && failed > 1 {
				t.Errorf("%s: %d requests in 10 minutes, %d failures", kind, requests, failed)
			}
		})
	}
}
