package tenethttp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

func registered() map[string]classify.Classifier {
	return map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()}
}

func strict() map[string]classify.Classifier {
	return map[string]classify.Classifier{"strict": classify.Typed(func(resp *http.Response, err error) classify.Outcome {
		return classify.Default(resp, errors.New("not the expected response"))
	})}
}

func TestC6Classifier(t *testing.T) {
	answered := func(method string, status int) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{}, Request: &http.Request{Method: method, Header: http.Header{}}}
	}
	keyed := answered("POST", 503)
	keyed.Request.Header.Set("Idempotency-Key", "k")
	slow := answered("GET", 429)
	slow.Header.Set("Retry-After", "3")
	wrapped := func(err error) error { return fmt.Errorf("users: %w", err) }
	none := (*http.Response)(nil)
	tests := map[string]struct {
		value any
		err   error
		want  classify.Outcome
	}{
		"success":                  {answered("GET", 204), nil, classify.Outcome{Reason: "success"}},
		"no response and no error": {nil, nil, classify.Outcome{Reason: "success"}},
		"no response":              {none, nil, classify.Outcome{Reason: "success"}},
		"GET 503":                  {answered("GET", 503), nil, classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_503", Reason: "http_status"}},
		"without a request":        {&http.Response{StatusCode: 503}, nil, classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_503", Reason: "http_status"}},
		"Retry-After":              {slow, nil, classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_429", Reason: "http_status", Pushback: 3 * time.Second}},
		"404":                      {answered("GET", 404), nil, classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness, Class: "http_404", Reason: "http_status"}},
		"POST 503":                 {answered("POST", 503), nil, classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Class: "http_503", Reason: "http_not_idempotent"}},
		"POST 503 keyed":           {keyed, nil, classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_503", Reason: "http_status"}},
		"wrapped status":           {none, wrapped(tenethttp.NewStatusError(slow)), classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_429", Reason: "http_status", Pushback: 3 * time.Second}},
		"made by hand":             {nil, &tenethttp.StatusError{StatusCode: 500}, classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Class: "http_500", Reason: "http_status"}},
		"GET lost":                 {nil, wrapped(&url.Error{Op: "Get", Err: errors.New("lost")}), classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: "transport"}},
		"GET timeout":              {nil, &url.Error{Op: "Get", Err: context.DeadlineExceeded}, classify.Outcome{Kind: classify.Retryable, Category: classify.CategoryTimeout, Reason: "transport"}},
		"POST timeout":             {nil, &url.Error{Op: "Post", Err: context.DeadlineExceeded}, classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryTimeout, Reason: "http_not_idempotent"}},
		"POST not dialled":         {nil, &url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: errors.New("x")}}, classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: "http_not_idempotent"}},
		"another error":            {nil, errors.New("odd"), classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem, Reason: "error"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tenethttp.Classifier().Classify(tt.value, tt.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestC6AnErrorAfterARedirectIsNoProof: the first server has processed the POST, and http.Client's error is about the second one.
func TestC6AnErrorAfterARedirectIsNoProof(t *testing.T) {
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/orders/1", http.StatusSeeOther)
	})
	_, err := client.Do(request(t, "POST", server.URL, nil))
	if got := tenethttp.Classifier().Classify(nil, err); got.Kind != classify.NonRetryable || got.Reason != policy.ReasonHTTPNotIdempotent {
		t.Errorf("%v is %+v", err, got)
	}
}

// TestC6AnAnswerAfterARedirectIsOneToTheFirstRequest: the POST has been processed, and the answer is that to the GET which followed.
func TestC6AnAnswerAfterARedirectIsOneToTheFirstRequest(t *testing.T) {
	server, client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			http.Redirect(w, r, "/orders", http.StatusSeeOther)
		case "/orders":
			http.Redirect(w, r, "/orders/1", http.StatusFound)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for method, want := range map[string]classify.Kind{"POST": classify.NonRetryable, "GET": classify.Retryable} {
		resp, err := client.Do(request(t, method, server.URL+"/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for name, got := range map[string]classify.Outcome{
			"response": tenethttp.Classifier().Classify(resp, nil), "error": tenethttp.Classifier().Classify(nil, tenethttp.NewStatusError(resp)),
		} {
			if got.Kind != want || got.Class != "http_503" {
				t.Errorf("%s as %s: %+v", method, name, got)
			}
		}
	}
}

func TestC5ForeignTypeIsAMismatch(t *testing.T) {
	got := tenethttp.Classifier().Classify("text", errors.New("x"))
	want := classify.Outcome{
		Kind: classify.NonRetryable, Category: classify.CategorySystem, Reason: policy.ReasonClassifierTypeMismatch,
		Attributes: map[string]string{"expected_type": "*http.Response", "got_type": "string"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestC4Classes(t *testing.T) {
	set := classify.Set{tenethttp.Classes()}
	err := fmt.Errorf("users: %w", &tenethttp.StatusError{StatusCode: 503})
	matches := set.Of(err)
	if len(matches) != 1 || !matches[0].Within("http_503") || !matches[0].Within(policy.ClassHTTP5xx) || matches[0].Within(policy.ClassHTTP4xx) {
		t.Errorf("classes of a 503: %v", matches)
	}
	for _, c := range []policy.Class{policy.ClassHTTP4xx, policy.ClassHTTP5xx, "http_400", "http_429", "http_599"} {
		if !set.Has(c) {
			t.Errorf("%s has no matcher", c)
		}
	}
	if got := set.Of(errors.New("x")); got != nil {
		t.Errorf("classes of another error: %v", got)
	}
}

func TestRetryAfterForms(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	if got := tenethttp.NewStatusError(answer(503, "", "Retry-After", in(time.Hour))).RetryAfter; got < 59*time.Minute || got > time.Hour {
		t.Errorf("a date an hour from now, without a Date: %s", got)
	}
	for value, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, "": 0, "1.5": 0, "-1": 0, "tomorrow": 0, in(-time.Hour): 0,
		"9223372036": 9223372036 * time.Second, "9223372037": 1<<63 - 1, "99999999999999999999": 1<<63 - 1,
	} {
		if got := tenethttp.NewStatusError(answer(429, "", "Retry-After", value)).RetryAfter; got != want {
			t.Errorf("%q parses as %s, want %s", value, got, want)
		}
	}
}

func TestD5TheLongestOfSeveralRetryAftersCounts(t *testing.T) {
	date := time.Now().UTC().Add(-time.Hour)
	in := func(d time.Duration) string { return date.Add(d).Format(http.TimeFormat) }
	for _, values := range [][]string{{"5", "60"}, {"60", "5"}, {"5, 60"}, {"60,5"}, {"soon", "60"}, {"5", in(time.Minute)}, {in(time.Second) + ", " + in(time.Minute) + ", 5"}} {
		resp := answer(503, "", "Date", in(0))
		resp.Header["Retry-After"] = values
		if got := tenethttp.NewStatusError(resp).RetryAfter; got != time.Minute {
			t.Errorf("%q parses as %s, want 1m", values, got)
		}
	}
}

func TestStatusErrorText(t *testing.T) {
	for want, e := range map[string]*tenethttp.StatusError{
		"http: POST api.example.com: 429 Too Many Requests": {Method: "POST", Host: "api.example.com", StatusCode: 429},
		"http: GET: 599": {StatusCode: 599},
	} {
		if e.Error() != want {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
}
