package storetest

import (
	"errors"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// searchable stores jobs that terms tell apart, one in each state among them.
func (s *jobs) searchable() {
	s.Helper()
	for _, text := range []string{"timeout: 100% sure", "Timeout", "a, \"b\" \\ c"} {
		s.attempt(job.Insert{}, job.KindDead, fails(text, 0))
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
	clock := func(r *job.Record) bool { return r.Queue == "clock" }
	all := slices.DeleteFunc(s.list(job.Filter{}), clock)
	for _, text := range filters() {
		f := s.parse(text)
		got, want := slices.DeleteFunc(s.list(f), clock), matching(&f, all)
		if !slices.Equal(namesOf(got), want) {
			s.Errorf("%s: %d jobs %v, want %d %v", text, len(got), namesOf(got), len(want), want)
		}
	}
	for text, want := range map[string]int{
		"queue:Mail*": 4, "queue:mail,Mail*,none": 8, `type:"mail\*"`: 4, "key:4*,none": 1, "error:timeout": 1, "error:imeout,100%": 2, "meta.tenant:acme": 4, "meta.tenant:odd": 4,
		"payload.order.id:42": 4, "payload.order.id:42,true": 6, "payload.order.id:null": 1, "payload.order:it's": 1, "state:dead,running": 5, "payload.größe:ä": 1,
	} {
		if got := len(s.list(s.parse(text))); got != want {
			s.Errorf("%s: %d jobs, want %d", text, got, want)
		}
	}
	f := job.Filter{Queue: "mail", Terms: filter.Terms{{Field: job.FieldType, Values: filter.Exactly("mail:send")}}}
	same(s, "jobs cancelled", len(s.change(job.ActionCancel, f, 3)), 3)
}

// filters try every field of the grammar on searchable jobs.
func filters() []string {
	return []string{
		"queue:mail", "queue:Mail*", "queue:mail,Mail*,none", "type:mail*", `type:"mail\*"`, "type:mail:*,t", "key:4*,none", "key:null", `key:"{*"`, "error:timeout", "error:imeout,100%",
		`error:"a, \"b\" \\ c"`, "error:_", "meta.tenant:acme", `meta.tenant:"acme 2"`, `meta.tenant:acme,"acme 2"`, "meta.trace.id:it's", "meta.größe:ä", "meta.Tenant:acme", "meta.it's:x",
		"payload.order.id:42", "payload.order.id:42.0", "payload.order.id:4.2e1", "payload.order.id:true", "payload.order.id:null", "payload.order.id:9007199254740993",
		"payload.order:it's", "payload.größe:ä", "payload.order.id.42:42", `payload.order.id:"a, \"b\" \\ c"`, "payload.order.id:42,true", "payload.it's.$[0]:x",
		"state:dead,running", "state:dead error:timeout", "queue:mail payload.order.id:42", "meta.tenant:acme payload.order.id:42,42.0", "state:ready queue:q type:t before:0s",
		"after:1000h", "before:1000h", "state:dead queue:mail type:mail* error:x key:a* meta.tenant:acme payload.a:b before:1h after:2h",
	}
}

// searchCases checks searches.
func searchCases() []jobsCase {
	return []jobsCase{
		{name: "S8/a search finds what a list does, newest first", run: searchesFind},
		{name: "S8/a search in which fields are indexed finds the same", run: func(s *jobs) {
			indexer := optional[job.Indexer](s, s.Store)
			fields := []string{"meta.größe", "meta.it's", "meta.tenant", "payload.order", "payload.order.id"}
			for _, field := range append(fields, fields...) {
				s.must(indexer.SetIndex(s.ctx, field, true), nil)
			}
			if got, err := s.searcher().Indexes(s.ctx); err != nil || !slices.Equal(got, fields) {
				s.Errorf("%v, %v", got, err)
			}
			searchesFind(s)
			found := s.search(job.Search{Filter: s.parse("payload.order.id:42 meta.tenant:acme payload.x:y")})
			if want := []string{"payload.x"}; !slices.Equal(found.Unindexed, want) {
				s.Errorf("%v is not indexed, want %v", found.Unindexed, want)
			}
			for _, field := range append(fields, fields...) {
				s.must(indexer.SetIndex(s.ctx, field, false), nil)
			}
			if got, err := s.searcher().Indexes(s.ctx); err != nil || len(got) != 0 {
				s.Errorf("%v, %v", got, err)
			}
			for _, field := range []string{"", "meta", "queue", "payload.a:b", "payload.a payload.b", `meta.a"b`} {
				if _, ok := errors.AsType[*filter.Error](indexer.SetIndex(s.ctx, field, true)); !ok {
					s.Errorf("%q was indexed", field)
				}
			}
		}},
		{name: "S8/a search is bounded in time, and goes on where it stopped", real: true, run: func(s *jobs) {
			s.enqueue(make([]job.Insert, 1000)...)
			first := s.add(job.Insert{Payload: []byte(`{"n":1}`)})
			s.enqueue(make([]job.Insert, 1000)...)
			q := job.Search{Filter: s.parse("payload.n:1"), Within: 1}
			found := s.search(q)
			if len(found.Jobs) != 0 || found.Next <= first || !slices.Equal(found.Unindexed, []string{"payload.n"}) {
				s.Fatalf("a search of 1 ns: %v", found)
			}
			steps := 1
			var all []string
			for ; found.Next != ""; steps++ {
				q.Below = found.Next
				found = s.search(q)
				all = append(all, namesOf(found.Jobs)...)
			}
			if !slices.Equal(all, []string{first}) || steps < 4 {
				s.Errorf("%d steps found %v, want %s", steps, all, first)
			}
		}},
	}
}

func (s *jobs) searcher() job.Searcher {
	s.Helper()
	return optional[job.Searcher](s, s.Store)
}

func (s *jobs) search(q job.Search) job.Found {
	s.Helper()
	found, err := s.searcher().Search(s.ctx, q)
	s.must(err, nil)
	return found
}

func (s *jobs) parse(text string) job.Filter {
	s.Helper()
	f, err := job.ParseFilter(text, s.clock())
	s.must(err, nil)
	return f
}

// searchesFind compares searches, whole and in pages, with lists.
func searchesFind(s *jobs) {
	s.searchable()
	ids := namesOf(s.list(job.Filter{}))
	for _, text := range append(filters(), "", "state:completed", "state:cancelled,ready", "state:dead", "id:"+ids[3]+","+ids[7]+" state:ready") {
		f := s.parse(text)
		want := namesOf(s.list(f))
		slices.Reverse(want)
		if got := s.search(job.Search{Filter: f, Limit: 1000}); !slices.Equal(namesOf(got.Jobs), want) || got.Next != "" {
			s.Errorf("%s: found %v and %q, want %v", text, namesOf(got.Jobs), got.Next, want)
		}
		var pages []string
		for q := (job.Search{Filter: f, Limit: 2}); ; {
			found := s.search(q)
			pages = append(pages, namesOf(found.Jobs)...)
			if len(found.Jobs) > 2 {
				s.Fatalf("%s: a page of %d", text, len(found.Jobs))
			}
			if q.Below = found.Next; q.Below == "" {
				break
			}
		}
		if !slices.Equal(pages, want) {
			s.Errorf("%s: pages of %v, want %v", text, pages, want)
		}
	}
}
