package natsstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/audit"
)

// chain makes the entries of a chain from one sequence to another.
func chain(t *testing.T, id string, from, to uint64, edit ...func(*audit.Event)) []audit.Entry {
	t.Helper()
	var list []audit.Entry
	for seq := from; seq <= to; seq++ {
		e := &audit.Event{
			SchemaVersion: audit.SchemaVersion, ID: fmt.Sprintf("%s-%d", id, seq), Type: audit.RetryAttempt,
			ChainID: id, Seq: seq, Hash: fmt.Sprintf("hash-%s-%d", id, seq),
		}
		if seq%3 == 0 {
			e.Type = audit.CallStopped
		}
		for _, f := range edit {
			f(e)
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, audit.Entry{Event: e, Line: line})
	}
	return list
}

func lines(entries ...[]audit.Entry) []string {
	var list []string
	for _, e := range slices.Concat(entries...) {
		list = append(list, string(e.Line))
	}
	return list
}

func appendAll(t *testing.T, a *natsstore.Audit, entries []audit.Entry) {
	t.Helper()
	if err := a.Append(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// stored checks that the log holds exactly these lines in this order.
func stored(t *testing.T, a *natsstore.Audit, want []string) {
	t.Helper()
	var got []string
	last := uint64(0)
	err := a.Read(t.Context(), "", func(cursor string, line []byte) error {
		seq, err := strconv.ParseUint(cursor, 10, 64)
		if err != nil || seq <= last {
			t.Errorf("cursor %q after %d", cursor, last)
		}
		last = seq
		got = append(got, string(line))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
}

func heads(t *testing.T, a *natsstore.Audit, want ...audit.Head) {
	t.Helper()
	got, err := a.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("heads (-want +got):\n%s", diff)
	}
}

func head(id string, seq uint64) audit.Head {
	return audit.Head{ChainID: id, Seq: seq, Hash: fmt.Sprintf("hash-%s-%d", id, seq)}
}

// oldStream creates the stream as for servers without atomic batches.
func oldStream(t *testing.T, url string, edit ...func(*jetstream.StreamConfig)) {
	t.Helper()
	config := jetstream.StreamConfig{Name: natsstore.AuditStream, Subjects: []string{natsstore.AuditSubject + ">"}}
	for _, e := range edit {
		e(&config)
	}
	js := jetStream(t, url)
	var err error
	natstest.Eventually(t, "the folder of a deleted stream is gone", func() bool { // the server removes it in the background
		const storeNotMade = 10049
		_, err = js.CreateStream(t.Context(), config)
		failed, ok := errors.AsType[*jetstream.APIError](err)
		return !ok || failed.ErrorCode != storeNotMade
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestA2EventsAreStoredOnceUnderTheirSubjectInOrder(t *testing.T) {
	for name, old := range map[string]bool{"in atomic batches": false, "one after another": true} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			if old {
				oldStream(t, n.ClientURL())
			}
			a := open(t, n.ClientURL()).Audit()
			stored(t, a, nil)
			heads(t, a)
			all := chain(t, "a", 1, 2503)
			appendAll(t, a, all[:1])
			appendAll(t, a, all[1:])
			appendAll(t, a, nil)
			stored(t, a, lines(all))
			heads(t, a, head("a", 2503))

			m, err := streamOf(t, n.ClientURL(), natsstore.AuditStream).GetMsg(t.Context(), 3)
			if err != nil {
				t.Fatal(err)
			}
			if m.Subject != "tenet.audit.v1.call_stopped" || m.Header.Get("Nats-Msg-Id") != "a-3" {
				t.Errorf("message 3 is %s, ID %s", m.Subject, m.Header.Get("Nats-Msg-Id"))
			}

			appendAll(t, a, all[2000:])                                       // a full repetition
			appendAll(t, a, append(all[2400:], chain(t, "a", 2504, 2600)...)) // a partial repetition and new entries
			stored(t, a, lines(chain(t, "a", 1, 2600)))
		})
	}
}

// TestA2InterruptedBatchIsRepeatedInOrder: a connection that breaks in the middle of a batch must not leave a gap that the
// repetition fills out of order.
func TestA2InterruptedBatchIsRepeatedInOrder(t *testing.T) {
	for name, trigger := range map[string]struct {
		on      string
		dropped bool
	}{
		"in the middle":                       {"Nats-Batch-Sequence: 400\r", true},
		"at the end":                          {"Nats-Batch-Commit", true},
		"after it was stored, unacknowledged": {"Nats-Batch-Commit", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t)
			p := natstest.Between(t, n)
			a := open(t, p.URL(), func(o *natsstore.Options) { // the answer must not arrive over the next connection
				o.Timeout, o.Connect = 5*time.Second, append(o.Connect, nats.ReconnectWait(8*time.Second))
			}).Audit()
			all := chain(t, "a", 1, 700)
			appendAll(t, a, all[:100])
			p.CutOn(trigger.on, trigger.dropped)
			if err := a.Append(t.Context(), all[100:]); err == nil {
				t.Fatal("a batch was acknowledged over a connection that was cut")
			}
			if p.Cuts() != 1 {
				t.Fatal("nothing was cut")
			}
			natstest.Eventually(t, "the repetition is stored", func() bool { return a.Append(t.Context(), all[100:]) == nil })
			stored(t, a, lines(all))
			heads(t, a, head("a", 700))
		})
	}
}

func TestA2BatchesOnAReplicatedStream(t *testing.T) {
	urls := cluster(t)
	edit := func(o *natsstore.Options) { o.Replicas, o.Timeout = 3, 10*time.Second }
	a, all := open(t, urls[0], edit).Audit(), chain(t, "a", 1, 1500)
	appendAll(t, a, all[:1200])
	appendAll(t, open(t, urls[1], edit).Audit(), all[1000:])
	stored(t, a, lines(all))
	heads(t, open(t, urls[2], edit).Audit(), head("a", 1500))
}

func TestA2NothingIsLostWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	n := start(t)
	a := open(t, n.ClientURL()).Audit()
	all := chain(t, "a", 1, 300)
	appendAll(t, a, all[:100])
	n.Stop()
	for range 3 {
		if err := a.Append(t.Context(), all[100:200]); err == nil {
			t.Fatal("acknowledged by a server that is down")
		}
	}
	n.Run()
	natstest.Eventually(t, "the repetition is stored", func() bool { return a.Append(t.Context(), all[100:200]) == nil })
	appendAll(t, a, all[200:])
	stored(t, a, lines(all))
}

func TestA2ARepetitionAfterTheDuplicateWindowIsReadAgainButIsNotAHead(t *testing.T) {
	n := start(t)
	oldStream(t, n.ClientURL(), func(c *jetstream.StreamConfig) { c.Duplicates, c.AllowAtomicPublish = 100*time.Millisecond, true })
	a := open(t, n.ClientURL()).Audit()
	all := chain(t, "a", 1, 5)
	appendAll(t, a, all)
	var repeated []string
	natstest.Eventually(t, "the server forgets", func() bool {
		appendAll(t, a, all[:1])
		repeated = nil
		if err := a.Read(t.Context(), "", func(_ string, line []byte) error {
			repeated = append(repeated, string(line))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return len(repeated) > 5
	})
	if diff := cmp.Diff(lines(all, all[:1]), repeated); diff != "" {
		t.Error(diff)
	}
	heads(t, a, head("a", 5))
}

func TestA3HeadsOfManyWritersStartFromTheLastOpening(t *testing.T) {
	n := start(t)
	first, second := open(t, n.ClientURL()).Audit(), open(t, n.ClientURL()).Audit()
	appendAll(t, first, chain(t, "a", 1, 10))
	heads(t, second, head("a", 10))
	appendAll(t, first, chain(t, "a", 11, 20)) // between reading the heads and the opening
	appendAll(t, second, chain(t, "b", 1, 1, func(e *audit.Event) {
		e.Type, e.Heads = audit.ChainOpened, []audit.Head{head("a", 10)}
	}))
	appendAll(t, second, chain(t, "b", 2, 4))
	m, err := streamOf(t, n.ClientURL(), natsstore.AuditStream).GetLastMsgForSubject(t.Context(), "tenet.audit.v1.chain_opened")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Header.Get("Tenet-Heads-At"); got != "10" {
		t.Errorf("the opening counts up to %q, want 10", got)
	}
	heads(t, open(t, n.ClientURL()).Audit(), head("a", 20), head("b", 4))

	// An opening with another writer's heads does not say from where on they count.
	appendAll(t, first, chain(t, "c", 1, 1, func(e *audit.Event) {
		e.Type, e.Heads = audit.ChainOpened, []audit.Head{head("z", 1)}
	}))
	heads(t, first, head("a", 20), head("b", 4), head("c", 1))
}

func TestA2ReadContinuesAfterACursorAndEndsWithItsContext(t *testing.T) {
	a := open(t, start(t).ClientURL()).Audit()
	all := chain(t, "a", 1, 20)
	appendAll(t, a, all)
	stop := errors.New("stop")
	var cursor string
	count := 0
	err := a.Read(t.Context(), "", func(c string, _ []byte) error {
		if count++; count == 7 {
			cursor = c
			return stop
		}
		return nil
	})
	if err != stop || count != 7 {
		t.Fatalf("%d lines, %v", count, err)
	}
	appendAll(t, a, chain(t, "a", 21, 25))
	var rest []string
	if err := a.Read(t.Context(), cursor, func(c string, line []byte) error {
		cursor, rest = c, append(rest, string(line))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(chain(t, "a", 8, 25)), rest); diff != "" {
		t.Error(diff)
	}
	if err := a.Read(t.Context(), cursor, func(string, []byte) error { return stop }); err != nil {
		t.Errorf("after the end: %v", err)
	}
	if err := a.Read(t.Context(), "x", func(string, []byte) error { return nil }); err == nil {
		t.Error("an invalid cursor was accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = a.Read(ctx, "", func(string, []byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled reading ended with %v", err)
	}
}

// TestTheTailIsTheLastLine, also of a stream that takes the place of a longer one.
func TestTheTailIsTheLastLine(t *testing.T) {
	n := start(t)
	a := open(t, n.ClientURL()).Audit()
	tail := func(want string) {
		t.Helper()
		if got, err := a.Tail(t.Context()); err != nil || got != want {
			t.Errorf("tail %q, %v; want %q", got, err, want)
		}
	}
	tail("")
	appendAll(t, a, chain(t, "a", 1, 20))
	tail("20")
	if err := jetStream(t, n.ClientURL()).DeleteStream(t.Context(), natsstore.AuditStream); err != nil {
		t.Fatal(err)
	}
	oldStream(t, n.ClientURL())
	appendAll(t, a, chain(t, "b", 1, 5))
	tail("5")
}

func TestA2AStreamThatWouldLoseEventsIsRejected(t *testing.T) {
	n := start(t)
	oldStream(t, n.ClientURL(), func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage })
	if err := open(t, n.ClientURL()).Audit().Append(t.Context(), chain(t, "a", 1, 1)); err == nil {
		t.Error("a stream in memory was accepted")
	}
}
