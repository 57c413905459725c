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
	} {
		if r := e.get(path); r.status != want.status || !strings.Contains(r.body, want.names) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
