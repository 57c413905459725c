package dlq

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

func TestErrorGroupsDistinguishThePathsOfHTTPJobs(t *testing.T) {
	groups := errorGroups{}
	for _, url := range []string{"https://h/orders/1?k=1", "https://h/orders/2", "https://h/mail", "https://h"} {
		groups.add(&job.Record{Type: "http", Payload: []byte(`{"url":"` + url + `"}`), LastError: "http: GET h: 503 Service Unavailable"})
	}
	var got []string
	for _, g := range groups.list() {
		got = append(got, fmt.Sprint(g.Count, " ", g.Fingerprint))
	}
	text := " http: GET h: 503 Service Unavailable at "
	if diff := cmp.Diff([]string{"2" + text + "/orders/<n>", "1" + text + "/", "1" + text + "/mail"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorGroupsAreSortedBySize(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	groups := errorGroups{}
	for _, r := range []job.Record{
		{ID: "a", LastError: "x 1", FailedAt: at(2)}, {ID: "b", LastError: "y", FailedAt: at(4)}, {ID: "c", LastError: "x 22", FailedAt: at(3)},
		{ID: "d", LastError: "x 3", FailedAt: at(1)}, {ID: "e", Reason: "overall_timeout", FinishedAt: at(5)},
	} {
		groups.add(&r)
	}
	want := []errorGroup{
		{"x <n>", "", 3, at(1), at(3), "c", "x 22"}, {"overall_timeout", "", 1, at(5), at(5), "e", "overall_timeout"}, {"y", "", 1, at(4), at(4), "b", "y"},
	}
	if diff := cmp.Diff(want, groups.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
