package storetest

import (
	"strings"

	"github.com/tenetdev/tenet/audit"
)

func auditChainCases() []auditCase {
	return []auditCase{
		{name: "A3/an empty sink has no heads", run: func(s *sink) { s.headsAre() }},
		{name: "A3/heads are the last events of their chains, ordered", run: func(s *sink) {
			chains := []*chain{newChain("ä"), newChain("b"), newChain("B"), newChain("a"), newChain("a2"), newChain("1")}
			for n := range 12 {
				for i, c := range chains {
					if n <= 2*i {
						s.append(c.next())
					}
				}
			}
			want := []audit.Head{chains[5].head, chains[2].head, chains[3].head, chains[4].head, chains[1].head, chains[0].head}
			s.headsAre(want...)
			s.reopen()
			s.headsAre(want...)
		}},
		{name: "A3/heads of chains in one batch", run: func(s *sink) {
			a, b := newChain("a"), newChain("b")
			s.append(a.next(), b.next(), b.next(), a.next(), a.next())
			s.headsAre(a.head, b.head)
		}},
		{name: "A3/another handle sees heads and events", shared: true, run: func(s *sink) {
			c := newChain("c")
			all := c.take(3)
			s.append(all...)
			second := s.options.Second(s.T, s.Sink)
			list, err := collect(s.ctx, s.sourceOf(second), "")
			s.ok(err)
			s.holds(list, all...)
			heads, err := second.Heads(s.ctx)
			if err != nil || len(heads) != 1 || heads[0] != c.head {
				s.Errorf("heads %+v, %v; want %+v", heads, err, c.head)
			}
			s.report("Close", second.Close())
			s.append(c.next()) // the other handles stay open
		}},
		{name: "A3/odd text comes back unchanged", run: func(s *sink) {
			c := newChain("c")
			var all []audit.Entry
			for _, text := range []string{
				"\x00", "a\x00b", "\b\f\n\r\t\x1f\x7f", `"\/'`, "\u2028\u2029", "\u00e9 e\u0301", "\U0001F600\U0010FFFF", "\ufeff", "\xff\xfe", "\xed\xa0\x80",
				"NULL", "{}", `\x00`, `\u0000`, "<&>", " ", strings.Repeat("long ", 2000),
			} {
				all = append(all, c.next(func(e *audit.Event) {
					e.WorkID, e.Category, e.Key, e.TenantID, e.ExceptionMessage = text, text, text, text, text
					e.Attributes = map[string]string{text: text}
				}))
			}
			s.append(all...)
			s.holds(s.read(""), all...)
			s.headsAre(c.head)
			s.append(all...)
			s.holds(s.read(""), all...)
		}},
		{name: "A3/the largest number of a chain comes back", run: func(s *sink) {
			c := newChain("c")
			c.head.Seq = 1<<53 - 2
			s.append(c.next())
			s.headsAre(c.head)
		}},
	}
}
