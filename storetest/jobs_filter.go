package storetest

import (
	"slices"
	"strings"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// searchable stores jobs that terms tell apart, one in each state among them.
func (s *jobs) searchable() {
	s.Helper()
	for _, text := range []string{"timeout: 100% sure", "Timeout", "a, \"b\" \\ c"} {
		r := s.start(job.Insert{}, long)
		s.must(s.settle(r.Ref(), job.KindDead, fails(text, 0)), nil)
	}
	s.inEveryState()
	for i, payload := range []string{
		`{"order":{"id":42}}`, `{"order":{"id":"42"}}`, ` {"order" : { "id" : "\u0034\u0032" } }`, `{"order":{"id":42.0}}`, `{"order":{"id":4.2e1}}`,
		`{"order":{"id":[42]}}`, `{"order":[{"id":42}]}`, `{"order":{"id":42}`, "not JSON", "\xff\x00", `42`, `null`, `{"order":{"id":null}}`, `{"order":{"id":true}}`,
		`{"order":{"id":"null"}}`, `{"order":{"id":"true"}}`, `{"order":{"id":{"42":42}}}`, `{"order":{"id":9007199254740993}}`, `{"order":"it's","größe":"ä"}`, `{"order.id":"42"}`,
		`{"order":{"id":"` + strings.Repeat("4", 3000) + `"}}`, `{"order":{"id":"a, \"b\" \\ c"}}`, `{"order":{"id":42},"x":"\u0000"}`, "",
	} {
		in := job.Insert{Payload: []byte(payload)}
		switch i % 6 {
		case 1:
			in.Queue, in.Type = "mail", "mail:send"
		case 2:
			in.Queue, in.Type = "Mail-2", "mail*"
		case 3:
			in.Meta = map[string]string{"tenant": "acme", "trace.id": "it's"}
		case 4:
			in.Meta, in.UniqueKey = map[string]string{"tenant": "acme 2", "größe": "ä", "long": strings.Repeat("x", 3000)}, payload
		case 5:
			in.Meta = oddMeta()
			in.Meta["tenant"] = "odd"
		}
		s.add(in)
	}
}

// termsSelect compares what a store selects with what Filter.Matches does.
func termsSelect(s *jobs) {
	s.searchable()
	all := s.list(job.Filter{})
	for _, text := range []string{
		"queue:mail", "queue:Mail*", "queue:mail,Mail*,none", "type:mail*", `type:"mail\*"`, "type:mail:*,t", "key:4*,none", "key:null", `key:"{*"`, "error:timeout", "error:imeout,100%",
		`error:"a, \"b\" \\ c"`, "error:_", "meta.tenant:acme", `meta.tenant:"acme 2"`, `meta.tenant:acme,"acme 2"`, "meta.trace.id:it's", "meta.größe:ä", "meta.Tenant:acme", "meta.it's:x",
		"payload.order.id:42", "payload.order.id:42.0", "payload.order.id:4.2e1", "payload.order.id:true", "payload.order.id:null", "payload.order.id:9007199254740993",
		"payload.order:it's", "payload.größe:ä", "payload.order.id.42:42", `payload.order.id:"a, \"b\" \\ c"`, "payload.order.id:42,true", "payload.it's.$[0]:x",
		"state:dead,running", "state:dead error:timeout", "queue:mail payload.order.id:42", "meta.tenant:acme payload.order.id:42,42.0", "state:ready queue:q type:t before:0s",
		"after:1000h", "before:1000h", "state:dead queue:mail type:mail* error:x key:a* meta.tenant:acme payload.a:b before:1h after:2h",
	} {
		f, err := job.ParseFilter(text, s.clock())
		s.must(err, nil)
		var want []string
		for _, r := range all {
			if r.Queue != "clock" && f.Matches(r) {
				want = append(want, r.ID)
			}
		}
		got := slices.DeleteFunc(s.list(f), func(r *job.Record) bool { return r.Queue == "clock" })
		if !slices.Equal(namesOf(got), want) {
			s.Errorf("%s: %d jobs %v, want %d %v", text, len(got), namesOf(got), len(want), want)
		}
	}
	for text, want := range map[string]int{
		"queue:Mail*": 4, "queue:mail,Mail*,none": 8, `type:"mail\*"`: 4, "key:4*,none": 1, "error:timeout": 1, "error:imeout,100%": 2, "meta.tenant:acme": 4, "meta.tenant:odd": 4,
		"payload.order.id:42": 4, "payload.order.id:42,true": 6, "payload.order.id:null": 1, "payload.order:it's": 1, "state:dead,running": 5, "payload.größe:ä": 1,
	} {
		f, err := job.ParseFilter(text, s.clock())
		s.must(err, nil)
		if got := len(s.list(f)); got != want {
			s.Errorf("%s: %d jobs, want %d", text, got, want)
		}
	}
	f := job.Filter{Queue: "mail", Terms: filter.Terms{{Field: job.FieldType, Values: filter.Exactly("mail:send")}}}
	if changed := s.change(job.ActionCancel, f, 3); len(changed) != 3 {
		s.Errorf("cancelled %v", changed)
	}
}
