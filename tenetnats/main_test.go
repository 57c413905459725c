package tenetnats_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenetnats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a NATS server of the test's own, on files that outlive its restarts.
type node struct {
	t       *testing.T
	options server.Options
	server  *server.Server
}

func start(t *testing.T, edit ...func(*server.Options)) *node {
	t.Helper()
	n := &node{t: t, options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}}
	for _, e := range edit {
		e(&n.options)
	}
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

// client connects to a URL past any policy.
func client(t *testing.T, url string, e *retry.Executor) *tenetnats.Client {
	t.Helper()
	conn, err := nats.Connect(url, nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := tenetnats.New(conn, e)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// proxy lies between client and server, and can hold up the answers or cut connections.
type proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu   sync.Mutex // guards what follows
	free *sync.Cond
	held bool // answers wait
	seen int  // chunks of answers that had to wait
	open map[net.Conn]bool
}

func between(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, open: map[net.Conn]bool{}}
	p.free = sync.NewCond(&p.mu)
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.hold(false)
		p.cut()
		p.group.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

// hold stops answers on their way, or lets them go on.
func (p *proxy) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.free.Broadcast()
}

func (p *proxy) hasHeld() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
		delete(p.open, c)
	}
}

func (p *proxy) accept() {
	for {
		front, err := p.listener.Accept()
		if err != nil {
			return
		}
		back, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = front.Close()
			continue
		}
		p.mu.Lock()
		p.open[front], p.open[back] = true, true
		p.mu.Unlock()
		p.pump(back, front, func() {})
		p.pump(front, back, p.slow)
	}
}

// slow holds an answer up.
func (p *proxy) slow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		p.seen++
	}
	for p.held {
		p.free.Wait()
	}
}

func (p *proxy) pump(to, from net.Conn, before func()) {
	p.group.Go(func() {
		defer func() { _, _ = to.Close(), from.Close() }()
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			before()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
}

func (n *node) url() string { return n.server.ClientURL() }
