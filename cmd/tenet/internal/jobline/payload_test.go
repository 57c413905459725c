package jobline

import (
	"strings"
	"testing"
)

func TestPayloadsOfBuiltInTypesAreChecked(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"http","payload":{"url":"https://h/","method":"put","headers":{"X-A":"b"},"body":{"a":1},"expect_status":[200,404]}}`: "",
		`{"type":"exec","payload":{"argv":["a","b"],"env":{"A":"b=c","lower.case":""},"dir":"/","stdin":"x"}}`:                         "",
		`{"type":"other","payload":{"argv":7}}`:                                                 "",
		`{"type":"http"}`:                                                                       "payload: url: missing",
		`{"type":"http","payload":null}`:                                                        "payload: url: missing",
		`{"type":"http","payload":"https://h/"}`:                                                "payload: expected an object, not a JSON string",
		`{"type":"http","payload":{"url":"ftp://h/"}}`:                                          "payload: url: must be an absolute http or https URL",
		`{"type":"http","payload":{"url":"/only/path"}}`:                                        "payload: url: must be",
		`{"type":"http","payload":{"url":"https://h/","method":"GET it"}}`:                      `payload: method: "GET it"`,
		`{"type":"http","payload":{"url":"https://h/","headers":{"A B":"c"}}}`:                  `payload: headers: "A B"`,
		`{"type":"http","payload":{"url":"https://h/","headers":{"":"c"}}}`:                     `payload: headers: ""`,
		`{"type":"http","payload":{"url":"https://h/","headers":{"Authorization":"s3cret\n"}}}`: "payload: headers: Authorization: the value holds a control character",
		`{"type":"http","payload":{"url":"https://h/","headers":{"A":1}}}`:                      "payload: headers: found a JSON number where a string is expected",
		`{"type":"http","payload":{"url":"https://h/","expect_status":99}}`:                     "payload: expect_status: 99",
		`{"type":"http","payload":{"url":"https://h/","expect":200}}`:                           `payload: unknown field "expect"; an http job has`,
		`{"type":"exec","payload":{}}`:                                                          "payload: argv: missing",
		`{"type":"exec","payload":{"argv":[""]}}`:                                               "payload: argv: missing",
		`{"type":"exec","payload":{"argv":["a"],"env":{"":"b"}}}`:                               `payload: env: ""`,
		`{"type":"exec","payload":{"argv":["a"],"env":{"A=":"b"}}}`:                             `payload: env: "A="`,
		`{"type":"exec","payload":{"argv":["a\u0000"]}}`:                                        "payload: argv: holds a NUL",
		`{"type":"exec","payload":{"argv":["a"],"cwd":"/"}}`:                                    `payload: unknown field "cwd"; an exec job has argv, env, dir, stdin`,
	} {
		_, err := Parse([]byte(line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
