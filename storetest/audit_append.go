package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/audit"
)

func auditAppendCases() []auditCase {
	return []auditCase{
		{name: "A2/events are read back byte for byte in their order", run: func(s *sink) {
			s.holds(s.read(""))
			c := newChain("c")
			first, second := c.take(3), c.take(1)
			s.append(first...)
			s.append(second...)
			s.append()
			s.holds(s.read(""), append(first, second...)...)
		}},
		{name: "A2/an event that is appended again is stored once", run: func(s *sink) {
			c := newChain("c")
			all := c.take(8)
			s.append(all[:5]...)
			s.append(all[:5]...)
			s.append(all[3:]...)
			s.append(all[7])
			s.holds(s.read(""), all...)
			s.headsAre(c.head)
		}},
		{name: "A2/an event twice in a batch is stored once", run: func(s *sink) {
			c := newChain("c")
			one, two := c.next(), c.next()
			s.append(one, one, two, two)
			s.holds(s.read(""), one, two)
		}},
		{name: "A2/an append whose outcome is unknown is repeated", run: repeatUnknown},
		{name: "A2/a large batch is stored as a whole", run: func(s *sink) {
			c := newChain("c")
			all := c.take(sized(10_000, 1_100))
			s.append(all...)
			s.holds(s.read(""), all...)
			s.headsAre(c.head)
		}},
		{name: "A2/long lines come back whole", run: func(s *sink) {
			c := newChain("c")
			var all []audit.Entry
			for _, n := range []int{1, 4096, 65_535, 65_536, 1 << 20} {
				all = append(all, c.next(func(e *audit.Event) { e.ExceptionMessage = strings.Repeat("x", n) }))
			}
			s.append(all...)
			s.holds(s.read(""), all...)
		}},
		{name: "A2/acknowledged events are there after closing and opening", run: func(s *sink) {
			c := newChain("c")
			all := c.take(10)
			s.append(all[:6]...)
			cursor := s.read("")[3].cursor
			s.reopen()
			s.holds(s.read(""), all[:6]...)
			s.holds(s.read(cursor), all[4:6]...)
			s.headsAre(audit.Head{ChainID: "c", Seq: 6, Hash: all[5].Event.Hash})
			s.append(all[4:]...) // with a repetition
			s.holds(s.read(""), all...)
		}},
		{name: "A2/a closed sink refuses events", run: func(s *sink) {
			c := newChain("c")
			kept, lost := c.next(), c.next()
			s.append(kept)
			before := s.Sink
			s.shut()
			if err := before.Append(s.ctx, []audit.Entry{lost}); err == nil {
				s.Error("Append after Close: no error")
			}
			s.use(s.options.Reopen(s.T, before))
			s.holds(s.read(""), kept)
		}},
	}
}

// repeatUnknown appends under contexts that end at any moment, and repeats failed appends as the Log does.
func repeatUnknown(s *sink) {
	c := newChain("c")
	var all []audit.Entry
	failures := 0
	for i := range 60 {
		entries := c.take(1 + i%7)
		all = append(all, entries...)
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
		if err := s.Append(ctx, entries); err != nil {
			failures++
			s.append(entries...)
		}
		cancel()
	}
	s.holds(s.read(""), all...)
	s.headsAre(c.head)
	s.Logf("%d of 60 appends failed", failures)
}

// BenchmarkAppend appends batches of 1,000 events of 600 bytes to a sink.
func BenchmarkAppend(b *testing.B, sink audit.Sink) {
	line := make([]byte, 600)
	n := 0
	for b.Loop() {
		entries := make([]audit.Entry, 1000)
		for i := range entries {
			n++
			entries[i] = audit.Entry{Line: line, Event: &audit.Event{
				ID: fmt.Sprintf("01990000-0000-7000-8000-%012x", n), Type: audit.RetryAttempt, ChainID: "c", Seq: uint64(n), Hash: fmt.Sprintf("%064x", n),
				WorkID: fmt.Sprintf("01990000-0000-7000-9000-%012x", n/3), Category: "RETRY_API_READ", Time: time.Unix(int64(n), 0),
			}}
		}
		if err := sink.Append(b.Context(), entries); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}
