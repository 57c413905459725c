package job_test

import (
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
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
		if got := job.Fingerprint(text); got != want {
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
		if got := job.Fingerprint(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestJ23CausesStandForTheirText(t *testing.T) {
	long := "dial " + strings.Repeat("é", 3000)
	for _, r := range []job.Record{
		{LastError: "timeout after 3s", Reason: policy.ReasonError}, {Reason: policy.ReasonOverallTimeout}, {LastError: long}, {LastError: "\xff\xfe"}, {},
	} {
		r.Cause = job.CauseOf(r.LastError, r.Reason)
		text := r.LastError
		if text == "" {
			text = string(r.Reason)
		}
		if r.CauseText() != job.Fingerprint(text) || len(r.Cause) != 12 {
			t.Errorf("%.40q: cause %s stands for %.40q", text, r.Cause, r.CauseText())
		}
	}
	if job.CauseOf(long, "") != job.CauseOf(long+" and more", "") {
		t.Error("the end of a long text counts")
	}
	buried := job.Record{LastError: "boom", Reason: policy.ReasonAttemptsExhausted, Cause: job.CauseOf("", policy.ReasonAttemptsExhausted)}
	if buried.CauseText() != string(policy.ReasonAttemptsExhausted) {
		t.Errorf("%q", buried.CauseText())
	}
	if (&job.Record{LastError: "x"}).CauseText() != "" {
		t.Error("a job without a cause has a text")
	}
}
