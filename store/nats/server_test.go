package nats_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	natsstore "github.com/tenetdev/tenet/store/nats"
	"github.com/tenetdev/tenet/storetest"
)

func TestMain(m *testing.M) {
	storetest.IdempotencyProcess(inProcess)
	goleak.VerifyTestMain(m)
}

// node is a NATS server of the test's own, on files that outlive its restarts.
type node struct {
	t       *testing.T
	options server.Options
	server  *server.Server
}

func start(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		MaxPayload: 2 << 20, // the suite's longest event is over the default of 1 MiB
	}}
	n.run()
	n.options.Port = n.server.Addr().(*net.TCPAddr).Port
	t.Cleanup(n.stop)
	return n
}

// run starts the server, or starts it again on the same port.
func (n *node) run() {
	n.t.Helper()
	options := n.options
	s, err := server.NewServer(&options)
	if err != nil {
		n.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		n.t.Fatal("the server did not start")
	}
	n.server = s
}

func (n *node) stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

func (n *node) url() string { return n.server.ClientURL() }

// open opens a store at a server, and closes it before that.
func open(t *testing.T, url string, edit ...func(*natsstore.Options)) *natsstore.DB {
	t.Helper()
	o := natsstore.Options{Timeout: 2 * time.Second, Connect: []nats.Option{
		nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}}
	for _, e := range edit {
		e(&o)
	}
	db, err := natsstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// proxy lies between client and server. While a trigger is set, the connection is cut when a client's bytes hold it:
// after they went on to the server, but before any answer comes back.
type proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	trigger []byte
	cuts    int // how often it has cut
	drop    bool
	open    map[net.Conn]bool
}

func between(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, open: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for c := range p.open {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.group.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

// cutOn arms the proxy for one cut. With drop the bytes that hold the trigger do not reach the server.
func (p *proxy) cutOn(trigger string, drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger, p.drop = []byte(trigger), drop
}

func (p *proxy) hasCut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		backend, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[backend] = true, true
		p.mu.Unlock()
		silent := &gate{to: client}
		p.group.Go(func() {
			defer func() { _, _ = client.Close(), backend.Close() }()
			_ = p.forward(client, backend, silent)
		})
		p.group.Go(func() {
			defer func() { _, _ = client.Close(), backend.Close() }()
			_, _ = io.Copy(silent, backend)
		})
	}
}

// gate is a way to the client that can be shut.
type gate struct {
	mu   sync.Mutex
	to   net.Conn
	shut bool
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return len(b), nil
	}
	return g.to.Write(b)
}

func (p *proxy) forward(client, backend net.Conn, answers *gate) error {
	buffer := make([]byte, 1<<16)
	var seen []byte // the end of what came before, where a trigger may have begun
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return err
		}
		p.mu.Lock()
		seen = append(seen, buffer[:n]...)
		cut, drop := len(p.trigger) > 0 && bytes.Contains(seen, p.trigger), p.drop
		seen = seen[max(0, len(seen)-64):]
		if cut {
			p.trigger = nil
			p.cuts++
		}
		p.mu.Unlock()
		if cut {
			answers.mu.Lock()
			answers.shut = true
			answers.mu.Unlock()
		}
		if !cut || !drop {
			if _, err := backend.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if cut { // the server closes its side when it has read all that was sent
			_ = backend.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, client)
			return errors.New("cut")
		}
	}
}

// eventually waits for what the server does in its own time.
func eventually(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}
