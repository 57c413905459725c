package natspipe_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(serveFolder); folder != "" {
		if err := serve(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

type node struct{ *natstest.Server }

func start(t testing.TB) node {
	t.Helper()
	return node{natstest.Start(t)}
}

func (n node) restart(t *testing.T) {
	t.Helper()
	n.Stop()
	time.Sleep(50 * time.Millisecond) // long enough for clients to notice
	n.Run()
}

// window is the streams' duplicate window: short, so that a stream may hold the same ID twice.
const window = 100 * time.Millisecond

// stream makes an empty stream and returns options for it.
func (n node) stream(t testing.TB, name string, edit ...func(*jetstream.StreamConfig)) natspipe.Options {
	t.Helper()
	config := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".in"}, Duplicates: window}
	for _, e := range edit {
		e(&config)
	}
	_, err := n.js(t).CreateStream(context.Background(), config)
	must(t, err)
	return natspipe.Options{Stream: name, AckWait: slow, Connect: []natsgo.Option{
		natsgo.ReconnectWait(20 * time.Millisecond), natsgo.ReconnectJitter(0, 0),
	}}
}

// js is the test's own connection to the server.
func (n node) js(t testing.TB) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect(n.ClientURL())
	must(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	must(t, err)
	return js
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openSource(t testing.TB, n node, o natspipe.Options) *natspipe.Source {
	t.Helper()
	s, err := natspipe.OpenSource(context.Background(), n.ClientURL(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openSink(t testing.TB, n node, o natspipe.Options) *natspipe.Sink {
	t.Helper()
	s, err := natspipe.OpenSink(context.Background(), n.ClientURL(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put publishes through a sink, which TestSink checks. Before it repeats an ID it waits for the end of the duplicate window.
func put(t testing.TB, n node, o natspipe.Options, list []*pipeline.Transaction) {
	t.Helper()
	s := openSink(t, n, o)
	defer s.Close()
	seen := map[string]bool{}
	for _, x := range list {
		if seen[x.ID()] {
			time.Sleep(2 * window)
		}
		seen[x.ID()] = true
		must(t, s.Dispatch(context.Background(), x))
	}
}

func TestSource(t *testing.T) {
	for name, double := range map[string]bool{"acks": false, "double acks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipelinetest.Sources(t, pipelinetest.SourceOptions{
				Open: func(t *testing.T) pipelinetest.Queue {
					n := start(t)
					o := n.stream(t, "orders")
					o.DoubleAck = double
					return pipelinetest.Queue{
						Put:     func(t *testing.T, list ...*pipeline.Transaction) { put(t, n, o, list) },
						Source:  func(t *testing.T) pipeline.Source { return openSource(t, n, o) },
						Restart: n.restart,
					}
				},
				Ordered: true, Counts: true, Lease: slow, Timeout: 30 * time.Second,
			})
		})
	}
}

func TestSink(t *testing.T) {
	pipelinetest.Sinks(t, pipelinetest.SinkOptions{
		Open: func(t *testing.T) pipelinetest.Target {
			n := start(t)
			o := n.stream(t, "orders", func(c *jetstream.StreamConfig) { c.Duplicates = 0 })
			return pipelinetest.Target{
				Sink:    func(t *testing.T) pipeline.Sink { return openSink(t, n, o) },
				Taken:   func(t *testing.T) []*pipeline.Transaction { return taken(t, n, o) },
				Restart: n.restart,
			}
		},
		Ordered: true, Deduplicates: true, Timeout: 30 * time.Second,
	})
}

// taken reads the whole stream.
func taken(t *testing.T, n node, o natspipe.Options) (list []*pipeline.Transaction) {
	t.Helper()
	o.Consumer = natsgo.NewInbox()[7:]
	s := openSource(t, n, o)
	defer s.Close()
	for {
		got, err := s.Fetch(t.Context(), pipeline.FetchRequest{Max: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range got {
			list = append(list, d.Transaction)
		}
		if len(got) == 0 {
			return list
		}
	}
}

func publish(t *testing.T, n node, subject string, header map[string]string, data string) {
	t.Helper()
	conn, err := natsgo.Connect(n.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m := natsgo.NewMsg(subject)
	for name, value := range header {
		m.Header[name] = []string{value}
	}
	m.Data = []byte(data)
	if _, err := conn.RequestMsg(m, 5*time.Second); err != nil {
		t.Fatal(err)
	}
}
