package storetest

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/policystore"
)

func client(document, id string) policystore.Client {
	return policystore.Client{
		Document: document, ID: id, Labels: map[string]string{"zone": "a"}, Desired: 3, Delivered: 3, Applied: 2, Refused: 3,
		Reason: "line 4: unknown class \"x\"", Staleness: 1500 * time.Millisecond, LastSeen: published,
	}
}

func clientCases() []policiesCase {
	return []policiesCase{
		{"S3 clients are stored and replaced", func(s *policies) {
			s.ok(s.SaveClients(s.ctx, []policystore.Client{client("payments", "b"), client("payments", "a"), client("other", "a")}))
			newer := client("payments", "a")
			newer.Applied, newer.Refused, newer.Reason, newer.Labels, newer.LastSeen = 3, 0, "", nil, published.Add(time.Second)
			s.ok(s.second.SaveClients(s.ctx, []policystore.Client{newer}))
			list, err := s.Clients(s.ctx, "payments", policystore.ClientKey{}, 10)
			s.ok(err)
			b := client("payments", "b")
			b.LastSeen, newer.LastSeen = policystore.Stamp(b.LastSeen), policystore.Stamp(newer.LastSeen)
			s.same([]policystore.Client{newer, b}, list, "clients")
		}},
		{"S3 what is older than the stored state is left out", func(s *policies) {
			s.ok(s.SaveClients(s.ctx, []policystore.Client{client("payments", "a")}))
			older := client("payments", "a")
			older.Applied, older.LastSeen = 1, published.Add(-time.Second)
			s.ok(s.SaveClients(s.ctx, []policystore.Client{older}))
			list, err := s.Clients(s.ctx, "payments", policystore.ClientKey{}, 10)
			s.ok(err)
			if len(list) != 1 || list[0].Applied != 2 {
				s.Errorf("%+v, want revision 2 applied", list)
			}
		}},
		{"S3 clients are listed page by page", func(s *policies) {
			var list []policystore.Client
			for i := range 7 {
				list = append(list, client(fmt.Sprintf("document-%d", i%2), fmt.Sprintf("client-%d", i)))
			}
			s.ok(s.SaveClients(s.ctx, list))
			for document, want := range map[string]int{"": 7, "document-0": 4, "document-1": 3, "nope": 0} {
				list := pages(s, func(last policystore.Client) ([]policystore.Client, error) {
					return s.second.Clients(s.ctx, document, last.Key(), 2)
				})
				same(s, "clients of document "+document, len(list), want)
			}
		}},
		{"S3 what clients reported last is kept", func(s *policies) {
			breaker := policystore.Mechanism{Kind: "breaker", Name: "users.\x00Get", State: "open", Since: published, Openings: 3, Refusals: 40}
			budget := policystore.Mechanism{Kind: "budget", Name: "shared", State: "exhausted", Since: published, Refusals: 7}
			a, b, quiet := client("payments", "a"), client("payments", "b"), client("payments", "quiet")
			consumer := policystore.Pipeline{Kind: "consumer", Name: "orders", Source: "file", Begun: published, Rate: 2.5, Fetched: 9, Success: 7, InFlight: 2, Lag: 4, LagKnown: true}
			a.Reported = &policystore.Reported{Mechanisms: []policystore.Mechanism{breaker, budget}}
			b.Reported, quiet.Reported = &policystore.Reported{Pipelines: []policystore.Pipeline{consumer}}, &policystore.Reported{}
			gone := client("payments", "gone")
			gone.Reported, gone.LastSeen = b.Reported, published.Add(-time.Hour)
			s.ok(s.SaveClients(s.ctx, []policystore.Client{a, b, quiet, gone, client("other", "a")}))
			check := func(what string, want map[string]int) {
				got := map[string]int{}
				for _, c := range pages(s, func(last policystore.Client) ([]policystore.Client, error) {
					return s.second.ReportingClients(s.ctx, published.Add(-time.Minute), last.Key(), 1)
				}) {
					got[c.ID] = len(c.Reported.Mechanisms) + len(c.Reported.Pipelines)
				}
				s.same(want, got, what)
			}
			check("as reported", map[string]int{"a": 2, "b": 1})
			list, err := s.Clients(s.ctx, "payments", policystore.ClientKey{}, 2)
			s.ok(err)
			s.same([]*policystore.Reported{a.Reported.Stamped(), b.Reported.Stamped()}, []*policystore.Reported{list[0].Reported, list[1].Reported}, "what was reported")
			a.Reported, b.Reported = nil, &policystore.Reported{}
			s.ok(s.SaveClients(s.ctx, []policystore.Client{a, b}))
			check("nil keeps it and an empty report removes it", map[string]int{"a": 2})
		}},
		{"S3 clients are counted by revision", func(s *policies) {
			a, b, c := client("payments", "a"), client("payments", "b"), client("payments", "c")
			b.Refused = 0
			gone := client("payments", "d")
			gone.LastSeen = published.Add(-time.Hour)
			s.ok(s.SaveClients(s.ctx, []policystore.Client{a, b, c, gone, client("other", "a")}))
			counts, err := s.second.CountClients(s.ctx, "payments", published.Add(-time.Minute))
			s.ok(err)
			s.same([]policystore.ClientCount{{Desired: 3, Applied: 2, Clients: 1}, {Desired: 3, Applied: 2, Refused: 3, Clients: 2}}, counts, "counts")
		}},
		{"S3 clients that are gone are removed", func(s *policies) {
			var list []policystore.Client
			for i := range 5 {
				c := client("payments", fmt.Sprintf("client-%d", i))
				c.LastSeen = published.Add(time.Duration(i) * time.Minute)
				list = append(list, c)
			}
			s.ok(s.SaveClients(s.ctx, list))
			for _, want := range []int{2, 1, 0} {
				n, err := s.RemoveClients(s.ctx, published.Add(150*time.Second), 2)
				s.ok(err)
				same(s, "clients removed", n, want)
			}
			left, err := s.Clients(s.ctx, "", policystore.ClientKey{}, 10)
			s.ok(err)
			if len(left) != 2 || left[0].ID != "client-3" {
				s.Errorf("left: %+v", left)
			}
		}},
		{"S3 ten thousand clients are saved at once", func(s *policies) {
			list := make([]policystore.Client, 10_000)
			for i := range list {
				list[i] = client("payments", fmt.Sprintf("client-%d", i))
			}
			s.ok(s.SaveClients(s.ctx, list))
			counts, err := s.CountClients(s.ctx, "payments", time.Time{})
			s.ok(err)
			if len(counts) != 1 || counts[0].Clients != 10_000 {
				s.Errorf("%+v", counts)
			}
		}},
	}
}
