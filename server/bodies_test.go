package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// TestJ9UniqueKeysThatJSONWouldMakeTheSameAreRefused: package json reads each of the refused ones as "k" and U+FFFD.
func TestJ9UniqueKeysThatJSONWouldMakeTheSameAreRefused(t *testing.T) {
	e := newEnv(t, nil)
	for key, want := range map[string]int{
		"k\xff": http.StatusBadRequest, "k\xfe": http.StatusBadRequest,
		`k\udcff`: http.StatusBadRequest, `k\udcfe`: http.StatusBadRequest, `k\ud83d`: http.StatusBadRequest, `k\ud83d\u0041`: http.StatusBadRequest, `k\ud83dx`: http.StatusBadRequest,
		`k\ud83d\ude00`: http.StatusOK, "k\U0001F600": http.StatusOK, `k\ufffd`: http.StatusOK, `k\\udcff`: http.StatusOK, `k\\\u00ff`: http.StatusOK, `\uDBFF\uDFFF`: http.StatusOK,
	} {
		r := e.change(http.MethodPost, "/v1/jobs", "key of "+strconv.QuoteToASCII(key), `{"jobs":[{"type":"mail","unique_key":"`+key+`"}]}`)
		if r.status != want || want != http.StatusOK && !strings.Contains(r.body, "payload_base64") {
			t.Errorf("%q: %d %s", key, r.status, r.body)
		}
	}
}

// TestS7AnswersAreUTF8: a payload may be stored that JSON readers of other languages refuse.
func TestS7AnswersAreUTF8(t *testing.T) {
	e := newEnv(t, nil)
	for _, payload := range []string{"\"a\xff\"", `"a\udcff"`, "\xff"} {
		list, err := job.Inserts([]job.Request{{Type: "mail", Payload: []byte(payload)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.options.Jobs.Enqueue(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		r := e.get("/v1/jobs/" + list[0].ID)
		var out api.Job
		if r.into(t, &out); !utf8.ValidString(r.body) || out.Payload != nil || string(out.PayloadBase64) != payload {
			t.Errorf("%q: %q", payload, r.body)
		}
		// The Go client sends such a payload so that the server takes it.
		raw, err := json.Marshal(api.Enqueue{Jobs: []api.NewJobRequest{api.FromInsert(list[0])}})
		if err != nil {
			t.Fatal(err)
		}
		if r := e.change(http.MethodPost, "/v1/jobs", "copy of "+strconv.QuoteToASCII(payload), string(raw)); r.status != http.StatusOK {
			t.Errorf("%q: %d %s", payload, r.status, r.body)
		}
	}
}

// TestS7AnEmptyListDoesNotStandForAll: a program that found no IDs must not delete all jobs, or make a token for all queues.
func TestS7AnEmptyListDoesNotStandForAll(t *testing.T) {
	e := newEnv(t, nil)
	ids := e.enqueue(api.NewJobRequest{Type: "mail"})
	for i, filter := range []string{`"filter":""`, `"filter":" "`, `"ids":[]`, `"states":[]`, `"queue":""`, `"type":""`, `"error":""`} {
		if r := e.change(http.MethodPost, "/v1/jobs/actions/delete", "k"+strconv.Itoa(i), `{"filter":{`+filter+`}}`); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", filter, r.status, r.body)
		}
	}
	for _, bound := range []string{`"queues":[]`, `"documents":[]`} {
		if r := e.do(call{method: http.MethodPost, path: "/v1/tokens", body: `{"name":"t","scopes":["read"],` + bound + `}`}); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", bound, r.status, r.body)
		}
	}
	if r := e.get("/v1/jobs/" + ids[0]); r.status != http.StatusOK {
		t.Error(r)
	}
}

// TestS7SecondsThatNoDurationHoldsAreRefused by the bound of the field, and are not said to be negative.
func TestS7SecondsThatNoDurationHoldsAreRefused(t *testing.T) {
	e := newEnv(t, nil)
	for _, seconds := range []string{"1e10", "1e300"} {
		for _, c := range []struct{ path, body, field string }{
			{"/v1/jobs", `{"jobs":[{"type":"mail","timeout":` + seconds + `}]}`, "body.jobs[0].timeout"},
			{"/v1/jobs", `{"jobs":[{"type":"mail","unique_key":"k","unique_for":` + seconds + `}]}`, "body.jobs[0].unique_for"},
			{"/v1/documents/pay/revisions", `{"body":"version: 1","rollout":{"steps":[{"share":1,"hold":` + seconds + `}]}}`, "body.rollout.steps[0].hold"},
			{"/v1/idempotency/resolve", `{"key":"k","state":"released","ttl":` + seconds + `}`, "body.ttl"},
		} {
			r := e.do(call{method: http.MethodPost, path: c.path, body: c.body, header: map[string]string{"If-Match": "*", "Idempotency-Key": c.field + seconds}})
			var p api.Problem
			if r.into(t, &p); p.Status != http.StatusUnprocessableEntity || len(p.Errors) != 1 || p.Errors[0].Path != c.field || strings.Contains(r.body, "-2562047h") {
				t.Errorf("%s: %s", c.field, r.body)
			}
		}
	}
}

// TestS7AJobHasOnePayload: of two, one would be lost.
func TestS7AJobHasOnePayload(t *testing.T) {
	e := newEnv(t, nil)
	for job, want := range map[string]int{
		`"payload":{"a":1},"payload_base64":"aGk="`: http.StatusUnprocessableEntity, `"payload":null,"payload_base64":"aGk="`: http.StatusOK, `"payload_base64":"aGk="`: http.StatusOK,
	} {
		for path, body := range map[string]string{"/v1/jobs": `{"jobs":[{"type":"mail",` + job + `}]}`, "/v1/flows": `{"jobs":[{"type":"mail","node":"a",` + job + `}]}`} {
			r := e.change(http.MethodPost, path, path+job, body)
			if r.status != want || want != http.StatusOK && !strings.Contains(r.body, `"body.jobs[0].payload_base64"`) {
				t.Errorf("%s %s: %d %s", path, job, r.status, r.body)
			}
		}
	}
}

// TestJ19APUTOfALimitSetsOne: a request without values, such as that of a program whose values were lost, does not remove the setting.
func TestJ19APUTOfALimitSetsOne(t *testing.T) {
	e := newEnv(t, nil)
	const path = "/v1/limits/one?queue=mail"
	if r := e.change(http.MethodPut, path, "set", `{"values":{"concurrency":1}}`); r.status != http.StatusOK {
		t.Fatal(r)
	}
	for _, body := range []string{`{}`, `{"off":false}`, `{"values":null}`} {
		if r := e.change(http.MethodPut, path, body, body); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, `"body.values"`) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if r := e.get("/v1/limits"); !strings.Contains(r.body, `"source":"setting"`) {
		t.Error(r.body)
	}
}

// TestS7AJobWithoutAttemptsHasAnEmptyHistory, which only lists leave out.
func TestS7AJobWithoutAttemptsHasAnEmptyHistory(t *testing.T) {
	e := newEnv(t, nil)
	ids := e.enqueue(api.NewJobRequest{Type: "mail"})
	if r := e.get("/v1/jobs/" + ids[0]); !strings.Contains(r.body, `"history":[]`) {
		t.Error(r.body)
	}
	if r := e.get("/v1/jobs"); strings.Contains(r.body, "history") {
		t.Error(r.body)
	}
}

// TestS7ATimeThatJSONCannotHoldIsRefused: in UTC it is in the year 10000. A list with it could not be read any more.
func TestS7ATimeThatJSONCannotHoldIsRefused(t *testing.T) {
	e := newEnv(t, nil)
	for path, body := range map[string]string{
		"/v1/queues/mail": `{"paused":true,"until":"9999-12-31T23:30:00-01:00"}`,
		"/v1/tokens":      `{"name":"t","scopes":["read"],"expires":"9999-12-31T23:30:00-01:00"}`,
		"/v1/jobs":        `{"jobs":[{"type":"mail","run_at":"9999-12-31T23:30:00-01:00"}]}`,
	} {
		method := http.MethodPost
		if path == "/v1/queues/mail" {
			method = http.MethodPut
		}
		if r := e.change(method, path, path, body); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "year 10000") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for _, path := range []string{"/v1/queues", "/v1/tokens"} {
		if r := e.get(path); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
