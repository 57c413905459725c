package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
)

// How slow the slow faults are. A slow answer outlasts the usual hedge delay, a slow body the timeout of an attempt.
const (
	slowAnswer = 180 * time.Millisecond
	slowPieces = 8
	slowPiece  = 50 * time.Millisecond
)

// Endpoint is a web server on a loopback port that answers requests according to its schedule.
type Endpoint struct {
	schedule   Schedule
	deliveries map[string]Delivery // by ID
	listener   net.Listener
	server     *http.Server
	served     chan error

	mu       sync.Mutex // guards the fields below
	requests map[string]int
	accepted map[string]int
	faults   map[Fault]int
	keys     map[string]string // the first idempotency key, by delivery
	strays   int               // requests with another key than the first of their delivery
}

// DeliveryHeader names the delivery that a request belongs to: its idempotency key is the job's ID.
const DeliveryHeader = "Demo-Delivery"

// StartEndpoint starts an endpoint for the deliveries. It must be closed.
func StartEndpoint(s Schedule, deliveries []Delivery) (*Endpoint, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: endpoint: %w", err)
	}
	e := &Endpoint{
		schedule: s, deliveries: make(map[string]Delivery, len(deliveries)), listener: listener, served: make(chan error, 1),
		requests: map[string]int{}, accepted: map[string]int{}, faults: map[Fault]int{}, keys: map[string]string{},
	}
	for _, d := range deliveries {
		e.deliveries[d.ID] = d
	}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second}
	go func() { e.served <- e.server.Serve(listener) }()
	return e, nil
}

// Address is where the endpoint listens.
func (e *Endpoint) Address() string { return e.listener.Addr().String() }

// Close ends the endpoint with all its connections.
func (e *Endpoint) Close() error {
	err := e.server.Close()
	if served := <-e.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Counts are the counts of the endpoint.
type Counts struct {
	Requests int
	Accepted map[string]int // proper answers by delivery
	Faults   map[Fault]int
	// Strays counts requests with another idempotency key than the first one of their delivery. A receiver that deduplicates
	// by key would have processed them again.
	Strays int
}

// Counts returns the counts so far.
func (e *Endpoint) Counts() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := Counts{Accepted: maps.Clone(e.accepted), Faults: maps.Clone(e.faults), Strays: e.strays}
	for _, n := range e.requests {
		c.Requests += n
	}
	return c
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, known := e.deliveries[r.Header.Get(DeliveryHeader)]
	if !known {
		http.Error(w, "unknown delivery", http.StatusNotFound)
		return
	}
	n := e.count(d.ID, r.Header.Get("Idempotency-Key"))
	fault := e.schedule.Fault(d.Queue, d.ID, n)
	e.note(fault)
	_, _ = io.Copy(io.Discard, r.Body) // also lets the server notice when the client goes away
	if wait.For(r.Context(), e.schedule.Latency(d.ID, n)) != nil {
		return
	}
	switch fault {
	case None:
		e.accept(w, d, "")
	case ServerError, Broken:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case Unavailable:
		http.Error(w, "be back soon", http.StatusServiceUnavailable)
	case Throttled:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not so fast", http.StatusTooManyRequests)
	case Closed:
		w.Header().Set("Retry-After", strconv.Itoa(7200))
		http.Error(w, "come back tomorrow", http.StatusTooManyRequests)
	case Rejected:
		http.Error(w, "no such object", http.StatusUnprocessableEntity)
	case Hang:
		<-r.Context().Done()
	case Slow:
		if wait.For(r.Context(), slowAnswer) == nil {
			e.accept(w, d, "")
		}
	case SlowBody:
		e.accept(w, d, "in pieces ")
		for range slowPieces {
			_ = http.NewResponseController(w).Flush() // fails only if the client is gone
			if wait.For(r.Context(), slowPiece) != nil {
				return
			}
			_, _ = io.WriteString(w, "piece ")
		}
	case Reset:
		reset(w)
	}
}

// accept sends the response that the delivery expects. A status without a body gets none.
func (e *Endpoint) accept(w http.ResponseWriter, d Delivery, body string) {
	e.mu.Lock()
	e.accepted[d.ID]++
	e.mu.Unlock()
	status := http.StatusOK
	if expected := d.Request.ExpectStatus; len(expected) > 0 {
		status = expected[0]
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_, _ = io.WriteString(w, body)
	}
}

func (e *Endpoint) count(id, key string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first, seen := e.keys[id]; !seen {
		e.keys[id] = key
	} else if first != key {
		e.strays++
	}
	e.requests[id]++
	return e.requests[id]
}

func (e *Endpoint) note(f Fault) {
	if f == None {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults[f]++
}

// reset breaks the connection without an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // so that closing sends a reset
	}
	_ = conn.Close()
}
