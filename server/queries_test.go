package server

import (
	"net/http"
	"strings"
	"testing"
)

// TestS7NoParameterOfAURLIsIgnored: a list with a filter that was not understood would be a list of everything.
func TestS7NoParameterOfAURLIsIgnored(t *testing.T) {
	e := newEnv(t, nil)
	for path, want := range map[string]struct {
		status int
		names  string
	}{
		"/v1/jobs?filter=error:100%":                      {http.StatusBadRequest, "%25"},
		"/v1/jobs?filter=error:100%25":                    {status: http.StatusOK},
		"/v1/audit/events?type=x;y":                       {http.StatusBadRequest, "%3B"},
		"/v1/jobs?filter=state:dead&filter=queue:mail":    {http.StatusUnprocessableEntity, "query.filter"},
		"/v1/audit/events?limit=1&limit=2":                {http.StatusUnprocessableEntity, "query.limit"},
		"/v1/audit/events?actro=token:ops":                {http.StatusUnprocessableEntity, "query.actro"},
		"/v1/audit/events?order=backwards":                {http.StatusUnprocessableEntity, "query.order"},
		"/v1/audit/events?order=newest&type=call_stopped": {status: http.StatusOK},
		"/v1/audit/events?order=":                         {status: http.StatusOK},
		"/v1/jobs/events?fliter=state:dead":               {http.StatusUnprocessableEntity, "query.fliter"},
		"/v1/events?topic=pulse":                          {http.StatusUnprocessableEntity, "query.topic"},
		"/v1/jobs?filtre=state:dead":                      {http.StatusUnprocessableEntity, "query.filtre"},
		"/metrics?name=x":                                 {status: http.StatusOK},
		"/metrics?name[]=go_info&name[]=go_goroutines":    {status: http.StatusOK}, // as Prometheus asks for some metrics only
	} {
		if r := e.get(path); r.status != want.status || !strings.Contains(r.body, want.names) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// TestS7AFaultNamesItsPlace in the same way, whichever part of the server has found it.
func TestS7AFaultNamesItsPlace(t *testing.T) {
	e := newEnv(t, nil)
	for _, c := range []struct {
		call
		place string
	}{
		{call{method: http.MethodGet, path: "/v1/jobs?cursor=%00"}, `"query.cursor"`},
		{call{method: http.MethodGet, path: "/v1/jobs/%ff"}, `"path.id"`},
		{call{method: http.MethodPost, path: "/v1/jobs/search", body: `{"filter":{"queue":"a\u0000"}}`}, `"body.filter.queue"`},
		{call{method: http.MethodGet, path: "/v1/events", header: map[string]string{"Last-Event-ID": "x"}}, "Last-Event-ID: "},
		{call{method: http.MethodGet, path: "/v1/jobs/events", header: map[string]string{"Last-Event-ID": "x"}}, "Last-Event-ID: "},
		{call{method: http.MethodGet, path: "/v1/audit/events?order=newest&before=x"}, "before: "},
		{call{method: http.MethodGet, path: "/v1/audit/events?after=x"}, "after: "},
	} {
		if r := e.do(c.call); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, c.place) {
			t.Errorf("%s: %d %s", c.path, r.status, r.body)
		}
	}
}
