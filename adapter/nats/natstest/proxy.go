package natstest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

const longTrigger = 64

// Proxy lies between clients and a server. Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	free    *sync.Cond
	held    bool
	waited  int
	trigger []byte
	drop    bool
	cuts    int
	open    map[net.Conn]bool
}

// Between starts a proxy before a server, until the test ends.
func Between(t testing.TB, s *Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: s.Addr().String(), open: map[net.Conn]bool{}}
	p.free = sync.NewCond(&p.mu)
	p.group.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Hold(false)
		p.Cut()
		p.group.Wait()
	})
	return p
}

// URL is where clients connect.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Hold stops answers on their way, or lets them go on.
func (p *Proxy) Hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.free.Broadcast()
}

// Held is how many pieces of answers have had to wait.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waited
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
		delete(p.open, c)
	}
}

// CutOn ends the next connection on which a client sends the trigger, of at most 64 bytes: before any answer to it comes
// back, and after the server has read it, or with drop before it gets there.
func (p *Proxy) CutOn(trigger string, drop bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger, p.drop = []byte(trigger), drop
}

// Cuts is how many connections have ended by CutOn.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		l := &link{Proxy: p, server: server.(*net.TCPConn)}
		p.group.Go(func() { pump(server, client, l.request) })
		p.group.Go(func() { pump(client, server, l.answer) })
	}
}

// pump moves what may pass.
func pump(to, from net.Conn, mayPass func([]byte) bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !mayPass(buffer[:n]) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// link is one connection.
type link struct {
	*Proxy
	server *net.TCPConn
	seen   []byte // the end of what the client has sent, where a trigger may have begun
	silent bool   // nothing passes any more; guarded by mu
}

func (l *link) request(b []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, b...)
	if l.silent || len(l.trigger) == 0 || !bytes.Contains(l.seen, l.trigger) {
		l.seen = l.seen[max(0, len(l.seen)-longTrigger):]
		return !l.silent
	}
	l.trigger, l.silent = nil, true
	l.cuts++
	if !l.drop {
		_, _ = l.server.Write(b)
	}
	_ = l.server.CloseWrite() // it closes its side when it has read all that was sent
	return false
}

// answer waits while answers are held up.
func (l *link) answer([]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held {
		l.waited++
	}
	for l.held {
		l.free.Wait()
	}
	return !l.silent
}
