package tenetnats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	tenetnats "github.com/tenetdev/tenet/adapter/nats"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// step is one operation of a client and a check of its effect.
type step struct {
	name  string
	key   string
	code  policy.Category
	run   func(ctx context.Context, c *tenetnats.Client, b *tenetnats.Bucket, call ...retry.CallOption) error
	check func(t *testing.T, c *tenetnats.Client, b *tenetnats.Bucket)
}

func message(subject string) *nats.Msg { return &nats.Msg{Subject: subject, Data: []byte("data")} }

func steps() []step {
	var received atomic.Int64
	return []step{
		{"core publish with an ID", "nats.Publish", policy.NATSPublish,
			func(ctx context.Context, c *tenetnats.Client, _ *tenetnats.Bucket, call ...retry.CallOption) error {
				return c.Publish(ctx, message("core"), append(call, retry.WithIdempotencyKey("id-1"))...)
			}, nil},
		{"stream publish", "nats.Publish", policy.NATSPublish,
			func(ctx context.Context, c *tenetnats.Client, _ *tenetnats.Bucket, call ...retry.CallOption) error {
				_, err := c.PublishStream(ctx, message("orders.new"), call...)
				return err
			},
			func(t *testing.T, c *tenetnats.Client, _ *tenetnats.Bucket) { // stored once, however often it was sent
				if n := stored(t, c); n != 1 {
					t.Errorf("%d messages are stored, want 1", n)
				}
			}},
		{"subscribe", "nats.Subscribe", policy.NATSSubscribe,
			func(ctx context.Context, c *tenetnats.Client, _ *tenetnats.Bucket, call ...retry.CallOption) error {
				received.Store(0)
				_, err := c.Subscribe(ctx, tenetnats.Subscription{Subject: "hello", Handler: func(*nats.Msg) { received.Add(1) }}, call...)
				return err
			},
			func(t *testing.T, c *tenetnats.Client, _ *tenetnats.Bucket) { // once, however often it was tried
				reply := nats.NewInbox()
				done, err := c.Conn.SubscribeSync(reply)
				if err != nil {
					t.Fatal(err)
				}
				for _, subject := range []string{"hello", reply} {
					if err := c.Conn.Publish(subject, nil); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := done.NextMsg(10 * time.Second); err != nil {
					t.Fatal(err)
				}
				natstest.Eventually(t, "the message arrives", func() bool { return received.Load() > 0 })
				if n := received.Load(); n != 1 {
					t.Errorf("received %d times", n)
				}
			}},
		{"create a stream", "nats.StreamCreate", policy.NATSStreamCreate,
			func(ctx context.Context, c *tenetnats.Client, _ *tenetnats.Bucket, call ...retry.CallOption) error {
				_, err := c.CreateStream(ctx, jetstream.StreamConfig{Name: "NEW", Subjects: []string{"new.>"}}, call...)
				return err
			}, nil},
		{"create a bucket", "nats.KVCreate", policy.KVCreate,
			func(ctx context.Context, c *tenetnats.Client, _ *tenetnats.Bucket, call ...retry.CallOption) error {
				_, err := c.CreateBucket(ctx, jetstream.KeyValueConfig{Bucket: "new"}, call...)
				return err
			}, nil},
		{"get", "nats.KVGet", policy.KVGet,
			func(ctx context.Context, _ *tenetnats.Client, b *tenetnats.Bucket, call ...retry.CallOption) error {
				e, err := b.Get(ctx, "there", call...)
				if err == nil && string(e.Value()) != "value" {
					return fmt.Errorf("value %q", e.Value())
				}
				return err
			}, nil},
		{"put", "nats.KVPut", policy.KVPut,
			func(ctx context.Context, _ *tenetnats.Client, b *tenetnats.Bucket, call ...retry.CallOption) error {
				_, err := b.Put(ctx, "k", []byte("v"), call...)
				return err
			},
			func(t *testing.T, _ *tenetnats.Client, b *tenetnats.Bucket) {
				if e, err := b.KeyValue.Get(t.Context(), "k"); err != nil || string(e.Value()) != "v" {
					t.Errorf("the key is missing: %v", err)
				}
			}},
		{"delete", "nats.KVDelete", policy.KVDelete,
			func(ctx context.Context, _ *tenetnats.Client, b *tenetnats.Bucket, call ...retry.CallOption) error {
				return b.Delete(ctx, "there", call...)
			},
			func(t *testing.T, _ *tenetnats.Client, b *tenetnats.Bucket) {
				if _, err := b.KeyValue.Get(t.Context(), "there"); !errors.Is(err, jetstream.ErrKeyNotFound) {
					t.Errorf("the key still exists: %v", err)
				}
			}},
	}
}

// prepared creates the stream ORDERS and a bucket with the key "there".
func prepared(t *testing.T, c *tenetnats.Client) *tenetnats.Bucket {
	t.Helper()
	if _, err := c.JetStream.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	kv, err := c.JetStream.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "settings"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "there", "value"); err != nil {
		t.Fatal(err)
	}
	return c.Bucket(kv)
}

func stored(t *testing.T, c *tenetnats.Client) uint64 {
	t.Helper()
	s, err := c.JetStream.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// tries records the attempts and waits of a call.
type tries struct {
	waits    []time.Duration
	attempts []*observe.AttemptRecord
	work     observe.Work
}

// repairing makes an executor that calls repair instead of sleeping before the first retry.
func repairing(repair func()) (*retry.Executor, *tries) {
	seen := &tries{}
	return retry.NewExecutor(retry.ExecutorOptions{
		Classes: []classify.Family{tenetnats.Classes()},
		Wait: func(_ context.Context, d time.Duration) error {
			seen.waits = append(seen.waits, d)
			if len(seen.waits) == 1 {
				repair()
			}
			return nil
		},
		Observer: observe.Func(func(_ context.Context, e *observe.Event) {
			if e.Type == observe.AttemptEnded {
				seen.attempts, seen.work = append(seen.attempts, e.Attempt), e.Work
			}
		}),
	}), seen
}

// within sets the timeout of single attempts.
func within(d time.Duration) retry.CallOption {
	return retry.WithPolicy(func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = d })
}

// failedOnce checks that the call failed once, with an error of one of the classes, and that it counted as a timeout or a
// connection failure.
func (s *tries) failedOnce(t *testing.T, step step, classes ...policy.Class) {
	t.Helper()
	if len(s.waits) != 1 || len(s.attempts) != 2 {
		t.Fatalf("%d attempts, waits %v; want 2 attempts", len(s.attempts), s.waits)
	}
	base, _ := step.code.Policy()
	if d := s.waits[0]; d < base.InitialBackoff*9/10 || d > base.InitialBackoff*11/10 {
		t.Errorf("waited %s, want the catalog's %s ± 10%%", d, base.InitialBackoff)
	}
	if s.work.Category != step.code || s.work.Key.String() != step.key {
		t.Errorf("observed as %s %s, want %s %s", s.work.Category.Code(), s.work.Key, step.code.Code(), step.key)
	}
	class := tenetnats.Classes().Of(s.attempts[0].Err)
	for _, c := range classes {
		if class == c {
			return
		}
	}
	t.Errorf("the first error %v is of class %q, want one of %q", s.attempts[0].Err, class, classes)
}

func TestP11OperationsOutliveARestart(t *testing.T) {
	for _, step := range steps() {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			n := natstest.Start(t)
			e, seen := repairing(n.Run)
			c := client(t, n.ClientURL(), e)
			b := prepared(t, c)
			n.Stop()
			natstest.Eventually(t, "the connection is down", func() bool { return !c.Conn.IsConnected() })
			if err := step.run(t.Context(), c, b, within(5*time.Second)); err != nil {
				t.Fatal(err)
			}
			seen.failedOnce(t, step, policy.ClassNATSConnection)
			if step.check != nil {
				step.check(t, c, b)
			}
		})
	}
}

func TestP11OperationsOutliveASlowServer(t *testing.T) {
	unanswered(t, func(*natstest.Proxy) {}, policy.ClassNATSTimeout)
}

func TestP11OperationsOutliveALostConnection(t *testing.T) {
	cut := func(p *natstest.Proxy) { // the request is in flight when the connection ends
		for p.Held() == 0 {
			<-time.After(time.Millisecond)
		}
		p.Cut()
	}
	unanswered(t, cut, policy.ClassNATSTimeout, policy.ClassNATSConnection, policy.ClassNATS)
}

// unanswered runs each operation while the proxy delays answers until the first attempt has failed. during runs
// concurrently.
func unanswered(t *testing.T, during func(*natstest.Proxy), classes ...policy.Class) {
	t.Helper()
	for _, step := range steps() {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			p := natstest.Between(t, natstest.Start(t))
			e, seen := repairing(func() { p.Hold(false) })
			c := client(t, p.URL(), e)
			b := prepared(t, c)
			p.Hold(true)
			go during(p)
			if err := step.run(t.Context(), c, b, within(5*time.Second)); err != nil {
				t.Fatal(err)
			}
			if p.Held() == 0 {
				t.Fatal("no answer was delayed")
			}
			seen.failedOnce(t, step, classes...)
			first := seen.attempts[0]
			if timeout := first.Outcome.Category == classify.CategoryTimeout; timeout != (tenetnats.Classes().Of(first.Err) == policy.ClassNATSTimeout) {
				t.Errorf("the first outcome is %+v of %v", first.Outcome, first.Err)
			}
			if step.check != nil {
				step.check(t, c, b)
			}
		})
	}
}

func TestP11ExhaustedCallsNameTheirCategory(t *testing.T) {
	for _, step := range steps() {
		t.Run(step.name, func(t *testing.T) {
			n := natstest.Start(t)
			e, seen := repairing(func() {})
			c := client(t, n.ClientURL(), e)
			b := prepared(t, c)
			n.Stop()
			natstest.Eventually(t, "the connection is down", func() bool { return !c.Conn.IsConnected() })
			err := step.run(t.Context(), c, b, within(5*time.Millisecond))
			failure, ok := errors.AsType[*retry.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			catalog, _ := step.code.Policy()
			if failure.Category != step.code.Code() || failure.Attempts != catalog.MaxAttempts || failure.Key.String() != step.key {
				t.Errorf("%s %s after %d attempts; want %s %s after %d", failure.Category, failure.Key, failure.Attempts, step.code.Code(), step.key, catalog.MaxAttempts)
			}
			if !errors.Is(err, nats.ErrDisconnected) {
				t.Errorf("error %v, want ErrDisconnected inside", err)
			}
			if len(seen.waits) != catalog.MaxAttempts-1 {
				t.Errorf("waits %v", seen.waits)
			}
			n.Run()
		})
	}
}

func TestP11ConnectSucceedsWhenTheServerStarts(t *testing.T) {
	n := natstest.Start(t)
	n.Stop()
	e, seen := repairing(n.Run)
	conn, err := tenetnats.Connect(t.Context(), tenetnats.ConnectOptions{
		Executor: e, URL: n.ClientURL(), Options: []nats.Option{nats.Name("me"), nats.RetryOnFailedConnect(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !conn.IsConnected() || conn.Opts.Name != "me" {
		t.Errorf("connection %s of %q", conn.Status(), conn.Opts.Name)
	}
	seen.failedOnce(t, step{key: "nats.Connect", code: policy.NATSConnect}, policy.ClassNATSConnection)
}

func TestP11ConnectKeepsTheAttemptsTimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never sends anything
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e, seen := repairing(func() {})
	_, err = tenetnats.Connect(t.Context(), tenetnats.ConnectOptions{
		Executor: e, URL: "nats://" + l.Addr().String(), Options: []nats.Option{nats.Timeout(time.Hour)},
	}, within(20*time.Millisecond))
	if err == nil || len(seen.attempts) != 5 {
		t.Fatalf("%d attempts, %v", len(seen.attempts), err)
	}
	if class := tenetnats.Classes().Of(err); class != policy.ClassNATSConnection {
		t.Errorf("class %q of %v", class, err)
	}
}

func TestP11ConnectIsNotRepeatedWithoutAuthorization(t *testing.T) {
	n := natstest.Start(t, func(o *server.Options) { o.Username, o.Password = "u", "p" })
	e, seen := repairing(func() {})
	_, err := tenetnats.Connect(t.Context(), tenetnats.ConnectOptions{
		Executor: e, URL: n.ClientURL(), Options: []nats.Option{nats.UserInfo("u", "wrong")},
	})
	if !errors.Is(err, nats.ErrAuthorization) || len(seen.attempts) != 1 {
		t.Fatalf("%d attempts, %v; want 1 and ErrAuthorization", len(seen.attempts), err)
	}
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the error tells the password: %v", err)
	}
}

// TestC6CoreMessageWithoutAnIDIsSentOnce: like a POST, a message that may have been sent is not sent again.
func TestC6CoreMessageWithoutAnIDIsSentOnce(t *testing.T) {
	n := natstest.Start(t)
	p := natstest.Between(t, n)
	e, seen := repairing(func() { p.Hold(false) })
	c := client(t, p.URL(), e)
	other := client(t, n.ClientURL(), nil).Conn
	listener, err := other.SubscribeSync("core")
	if err := errors.Join(err, other.Flush()); err != nil { // the server handles it before anything is sent
		t.Fatal(err)
	}
	p.Hold(true)
	hedged := retry.WithPolicy(func(p *policy.Policy) {
		p.Retry.TimeoutPerAttempt = 200 * time.Millisecond
		p.Hedge = policy.Hedge{Enabled: true, HedgeDelay: 10 * time.Millisecond, MaxHedges: 2}
	})
	ctx, capture := observe.RecordTimeline(t.Context())
	if err := c.Publish(ctx, message("core"), hedged); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	if timeline, _ := capture.Timeline(); len(timeline.Attempts) != 1 {
		t.Errorf("%d attempts", len(timeline.Attempts))
	}
	if len(seen.waits) != 0 {
		t.Errorf("it was retried after %v", seen.waits)
	}
	p.Hold(false)
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := listener.NextMsg(10 * time.Second); err != nil {
		t.Fatalf("it did not arrive: %v", err)
	}
	if err := c.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if m, err := listener.NextMsg(50 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("it arrived twice: %v, %v", m, err)
	}
}

func TestC6HedgedSubscribeSubscribesOnce(t *testing.T) {
	p := natstest.Between(t, natstest.Start(t))
	e, _ := repairing(func() {})
	c := client(t, p.URL(), e)
	p.Hold(true)
	time.AfterFunc(100*time.Millisecond, func() { p.Hold(false) })
	hedged := retry.WithPolicy(func(p *policy.Policy) {
		p.Hedge = policy.Hedge{Enabled: true, HedgeDelay: 10 * time.Millisecond, MaxHedges: 3}
	})
	ctx, capture := observe.RecordTimeline(t.Context())
	if _, err := c.Subscribe(ctx, tenetnats.Subscription{Subject: "hello", Queue: "q", Handler: func(*nats.Msg) {}}, hedged); err != nil {
		t.Fatal(err)
	}
	if timeline, _ := capture.Timeline(); len(timeline.Attempts) != 1 {
		t.Errorf("%d attempts", len(timeline.Attempts))
	}
	if err := e.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := c.Conn.NumSubscriptions(); n != 1 {
		t.Errorf("%d subscriptions", n)
	}
}

func TestC6AnswersAreNotRepeated(t *testing.T) {
	n := natstest.Start(t)
	e, seen := repairing(func() {})
	c := client(t, n.ClientURL(), e)
	b := prepared(t, c)
	for name, try := range map[string]struct {
		run  func() error
		want error
		mark classify.Mark
	}{
		"no such key":   {func() error { _, err := b.Get(t.Context(), "absent"); return err }, jetstream.ErrKeyNotFound, classify.MarkBusiness},
		"a bad key":     {func() error { _, err := b.Put(t.Context(), "a b", nil); return err }, jetstream.ErrInvalidKey, classify.MarkPermanent},
		"a bad subject": {func() error { return c.Publish(t.Context(), message("")) }, nats.ErrBadSubject, classify.MarkPermanent},
		"too large": {func() error {
			return c.Publish(t.Context(), &nats.Msg{Subject: "x", Data: make([]byte, 2<<20)})
		}, nats.ErrMaxPayload, classify.MarkPermanent},
		"another bucket with the name": {func() error {
			_, err := c.CreateBucket(t.Context(), jetstream.KeyValueConfig{Bucket: "settings", History: 9})
			return err
		}, jetstream.ErrBucketExists, classify.MarkPermanent},
		"another stream with the name": {func() error {
			_, err := c.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"x"}})
			return err
		}, jetstream.ErrStreamNameAlreadyInUse, classify.MarkPermanent},
		"a wrong expectation": {func() error {
			m := message("orders.new")
			m.Header = nats.Header{jetstream.ExpectedLastSeqHeader: {"77"}}
			_, err := c.PublishStream(t.Context(), m)
			return err
		}, jetstream.ErrKeyExists, classify.MarkBusiness}, // the code of a wrong last sequence
	} {
		t.Run(name, func(t *testing.T) {
			*seen = tries{}
			err := try.run()
			if !errors.Is(err, try.want) || len(seen.attempts) != 1 || len(seen.waits) != 0 {
				t.Fatalf("%d attempts, %v; want 1 and %v", len(seen.attempts), err, try.want)
			}
			if mark, _ := classify.MarkOf(err); mark != try.mark {
				t.Errorf("mark %d, want %d", mark, try.mark)
			}
			if class := tenetnats.Classes().Of(err); class != policy.ClassNATS {
				t.Errorf("class %q", class)
			}
		})
	}
}

func TestC6NoStreamForASubjectIsNoResponders(t *testing.T) {
	e, seen := repairing(func() {})
	_, err := client(t, natstest.Start(t).ClientURL(), e).PublishStream(t.Context(), message("nobody.listens"))
	if err == nil || len(seen.attempts) != 3 || tenetnats.Classes().Of(err) != policy.ClassNATSNoResponders {
		t.Errorf("%d attempts, %v of class %s", len(seen.attempts), err, tenetnats.Classes().Of(err))
	}
}

func TestC6MessageIDs(t *testing.T) {
	c := client(t, natstest.Start(t).ClientURL(), retry.NewExecutor(retry.ExecutorOptions{}))
	prepared(t, c)
	own := message("orders.new")
	own.Header = nats.Header{nats.MsgIdHdr: {"own"}}
	var got []string
	for _, try := range []func() (*jetstream.PubAck, error){
		func() (*jetstream.PubAck, error) {
			return c.PublishStream(t.Context(), own, retry.WithIdempotencyKey("key"))
		},
		func() (*jetstream.PubAck, error) {
			return c.PublishStream(t.Context(), message("orders.new"), retry.WithIdempotencyKey("key"))
		},
		func() (*jetstream.PubAck, error) {
			return c.PublishStream(t.Context(), message("orders.new"), retry.WithCallID("call"))
		},
		func() (*jetstream.PubAck, error) {
			return c.PublishStream(t.Context(), message("orders.new"), retry.WithCallID("call"))
		},
	} {
		ack, err := try()
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.JetStream.Stream(t.Context(), "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(m.Header.Get(nats.MsgIdHdr), " ", ack.Duplicate))
	}
	if diff := cmp.Diff([]string{"own false", "key false", "call false", "call true"}, got); diff != "" {
		t.Error(diff)
	}
	if len(own.Header) != 1 {
		t.Errorf("the caller's message was changed: %v", own.Header)
	}
}

func TestP2NamespaceOfAClient(t *testing.T) {
	e, seen := repairing(func() {})
	c := client(t, natstest.Start(t).ClientURL(), e)
	c.Namespace = "orders-nats"
	if err := c.Publish(t.Context(), message("x")); err != nil {
		t.Fatal(err)
	}
	if got := seen.work.Key.String(); got != "orders-nats.Publish" {
		t.Errorf("key %s", got)
	}
}
