package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
)

func auditReadCases() []auditCase {
	return []auditCase{
		{name: "A2/a reader continues after any cursor", run: func(s *sink) {
			c := newChain("c")
			all := c.take(25)
			s.append(all[:20]...)
			list := s.read("")
			s.holds(list, all[:20]...)
			for i, e := range list {
				s.holds(s.read(e.cursor), all[i+1:20]...)
			}
			s.append(all[20:]...)
			s.holds(s.read(list[19].cursor), all[20:]...)
		}},
		{name: "A2/a reader reads more than one page", run: func(s *sink) {
			c := newChain("c")
			n := sized(2048, 1100)
			all := c.take(n)
			s.append(all...)
			list := s.read("")
			s.holds(list, all...)
			for _, at := range []int{0, 500, 999, 1000, 1023, 1024, n - 2, n - 1} {
				s.holds(s.read(list[at].cursor), all[at+1:]...)
			}
		}},
		{name: "A2/a reader's own error ends the reading", run: func(s *sink) {
			s.append(newChain("c").take(5)...)
			s.stops(func(f func(string, []byte) error) error { return s.Read(s.ctx, "", f) })
		}},
		{name: "A2/a reader ends with its context", run: func(s *sink) {
			s.append(newChain("c").take(5)...)
			ctx, cancel := context.WithCancel(s.ctx)
			calls := 0
			err := s.Read(ctx, "", func(string, []byte) error {
				calls++
				cancel()
				return nil
			})
			if !errors.Is(err, context.Canceled) || calls != 1 {
				s.Errorf("%d calls, %v; want 1, %v", calls, err, context.Canceled)
			}
		}},
		{name: "A2/an invalid cursor is refused", run: func(s *sink) {
			s.append(newChain("c").take(2)...)
			if list, err := collect(s.ctx, s.Source, "no cursor!"); err == nil {
				s.Errorf("Read: %d lines and no error", len(list))
			}
		}},
		{name: "A2/a reader may use the sink while it reads", run: func(s *sink) {
			c := newChain("c")
			all := c.take(40)
			s.append(all[:20]...)
			next := 20
			err := s.Read(s.ctx, "", func(string, []byte) error {
				if next < 30 {
					s.append(all[next])
					next++
				}
				_, err := s.Heads(s.ctx)
				return err
			})
			s.ok(err)
			s.holds(s.read(""), all[:30]...)
		}},
		{name: "A2/a reader that follows a writer misses nothing", run: func(s *sink) { follow(s, []audit.Sink{s.Sink}) }},
		{name: "A2/a reader that follows many writers misses nothing", shared: true, run: func(s *sink) {
			writers := []audit.Sink{s.Sink}
			for range 5 {
				writers = append(writers, s.options.Second(s.T, s.Sink))
			}
			follow(s, writers)
			for _, w := range writers[1:] {
				s.report("Close", w.Close())
			}
		}},
	}
}

// stops checks that a reading ends with the error of its third line.
func (s *sink) stops(read func(f func(string, []byte) error) error) {
	s.Helper()
	enough, calls := errors.New("enough"), 0
	err := read(func(string, []byte) error {
		if calls++; calls == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || calls != 3 {
		s.Errorf("%d calls, %v; want 3, %v", calls, err, enough)
	}
}

// follow lets writers append, each to a chain of its own, while a reader repeatedly continues after its last cursor. The
// reader must see every event once, the events of a chain in order, and all events in the same order as a reader at the end.
func follow(s *sink, writers []audit.Sink) {
	batches := sized(40, 15)
	var heads []audit.Head
	want := map[string]string{} // lines by chain
	var group sync.WaitGroup
	done := make(chan struct{})
	for i, w := range writers {
		c := newChain(fmt.Sprintf("chain-%02d", i))
		var list [][]audit.Entry
		var text strings.Builder
		for range batches {
			list = append(list, c.take(1+rand.IntN(20)))
			for _, e := range list[len(list)-1] {
				text.Write(append(e.Line, '\n'))
			}
		}
		want[c.id] = text.String()
		heads = append(heads, c.head)
		group.Go(func() {
			for _, entries := range list {
				s.report("Append", w.Append(s.ctx, entries))
			}
		})
	}
	go func() {
		group.Wait()
		close(done)
	}()
	var followed []stored
	looks := 0
	for ended := false; !ended; looks++ {
		select {
		case <-done:
			ended = true // one more look
		default:
		}
		after := ""
		if n := len(followed); n > 0 {
			after = followed[n-1].cursor
		}
		followed = append(followed, s.read(after)...)
	}
	if diff := cmp.Diff(s.read(""), followed, cmp.AllowUnexported(stored{})); diff != "" {
		s.Fatalf("in the end (-) and as followed (+):\n%s", diff)
	}
	got := map[string]string{}
	for _, line := range s.lines(followed) {
		for id := range want {
			if strings.Contains(line, `"chain_id":"`+id+`"`) {
				got[id] += line + "\n"
			}
		}
	}
	noDiff(s, "lines by chain", cmp.Diff(want, got))
	s.headsAre(heads...)
	s.Logf("%d looks at %d events", looks, len(followed))
}
