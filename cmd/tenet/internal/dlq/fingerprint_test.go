package dlq

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
)

func TestFingerprintReplacesVariableParts(t *testing.T) {
	for text, want := range map[string]string{
		`dial tcp 10.0.0.7:5432: connect: connection refused`:      `dial tcp <n>:<n>: connect: connection refused`,
		`dial tcp 10.0.13.24:5432:  connect: connection refused`:   `dial tcp <n>:<n>: connect: connection refused`,
		`order 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 is gone`:       `order <uuid> is gone`,
		`order 0195F3A2-6C1E-7F64-8D0C-4A4A0C6F1C55 is gone`:       `order <uuid> is gone`,
		`no user "Ann \"Bee\" Cee" in 'blue team' or ` + "`x`":     `no user <text> in <text> or <text>`,
		`can't find it, won't look`:                                `can't find it, won't look`,
		`commit 9fceb02d0ae598e95dc970b74767f19372d61af8 missing`:  `commit <hex> missing`,
		`panic at 0xdeadbeef`:                                      `panic at <hex>`,
		`took 1.5s of 3`:                                           `took <n>s of <n>`,
		"several\nlines":                                           `several lines`,
		`defaced facade`:                                           `defaced facade`,
		``:                                                         ``,
		`POST hooks.example.com: 503 Service Unavailable (try 12)`: `POST hooks.example.com: 503 Service Unavailable (try <n>)`,
	} {
		if got := fingerprint(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestFingerprintKeepsExitCodesStatusesAndPaths(t *testing.T) {
	for text, want := range map[string]string{
		`exec: exit code 75: no host 9`:                      `exec: exit code 75: no host <n>`,
		`exit status 2 after 3s`:                             `exit status 2 after <n>s`,
		`http: POST example.com: 404 Not Found`:              `http: POST example.com: 404 Not Found`,
		`upstream answered HTTP 502, took 40ms`:              `upstream answered HTTP 502, took <n>ms`,
		`unexpected status code 429`:                         `unexpected status code 429`,
		`open /srv/v2/batch-1234/in.csv: no such file`:       `open /srv/v2/batch-<n>/in.csv: no such file`,
		`Get "https://example.com/v1/orders/17": EOF`:        `Get "https://example.com/v1/orders/<n>": EOF`,
		`exec: "backup": executable file not found in $PATH`: `exec: "backup": executable file not found in $PATH`,
		`404 of 500 rows, "a text / more"`:                   `<n> of <n> rows, <text>`,
	} {
		if got := fingerprint(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

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
		{"x <n>", 3, at(1), at(3), "c", "x 22"}, {"overall_timeout", 1, at(5), at(5), "e", "overall_timeout"}, {"y", 1, at(4), at(4), "b", "y"},
	}
	if diff := cmp.Diff(want, groups.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
