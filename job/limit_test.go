package job

import "testing"

// TestJ19AWaitingJobNamesItsLimit: names that begin alike are told apart, whatever stands in a key.
func TestJ19AWaitingJobNamesItsLimit(t *testing.T) {
	short, long := LimitName{Queue: "mail", Name: "a"}, LimitName{Queue: "mail, b", Name: "a"}
	byType := LimitName{Type: "send", Name: "a"}
	list := []LimitName{short, long, byType}
	for waitsFor, want := range map[string]struct {
		name LimitName
		key  string
		ok   bool
	}{
		"limit a of queue mail":                          {short, "", true},
		"limit a of queue mail, meta.tenant:acme":        {short, "meta.tenant:acme", true},
		"limit a of queue mail, b":                       {long, "", true},
		"limit a of queue mail, b, meta.tenant:\"x, y\"": {long, "meta.tenant:\"x, y\"", true},
		"limit a of type send, meta.tenant:acme":         {byType, "meta.tenant:acme", true},
		"limit a of queue mailing":                       {},
		"a limit that has changed":                       {},
		"":                                               {},
	} {
		if name, key, ok := WaitedLimit(list, waitsFor); name != want.name || key != want.key || ok != want.ok {
			t.Errorf("%q: %v, %q, %t; want %v, %q, %t", waitsFor, name, key, ok, want.name, want.key, want.ok)
		}
	}
}
