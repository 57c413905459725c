package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policyfile"
)

// fleet is what the second process does: clients that follow documents, spread evenly.
type fleet struct {
	url                string
	documents, clients int
}

// bearerIn is the variable of the environment that holds the secret of the clients' token.
const bearerIn = "TENET_BENCH_CALLER" //nolint:gosec // a name, not a secret

// applied is the sum of revisions and clients so far.
type applied struct {
	count atomic.Int64
	mu    sync.Mutex  // guards times
	times []time.Time // since the last publication
}

func (a *applied) add() {
	now := time.Now()
	a.mu.Lock()
	a.times = append(a.times, now)
	a.mu.Unlock()
	a.count.Add(1)
}

// waiting is how many times take would return.
func (a *applied) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.times)
}

// take returns the times and starts a new list.
func (a *applied) take() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := a.times
	a.times = nil
	return times
}

// follow runs a fleet. On stdout it says "ready" once every client has applied its first revision. For every number on stdin
// it waits until so many clients have applied a revision since the answer before, for a minute at most, and a second more for
// those that should not. It answers with how many did, and the times of the middle, of 99 % and of the last of them, in
// nanoseconds since 1970.
func follow(ctx context.Context, in io.Reader, out io.Writer, f fleet) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := &applied{}
	faults := make(chan error, 1)
	fault := func(err error) {
		if err != nil && ctx.Err() == nil {
			select {
			case faults <- err:
			default:
			}
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, 200) // connections under way
	for i := range f.clients {
		group.Go(func() { fault(f.client(ctx, i, slots, done.add)) })
	}
	for done.count.Load() < int64(f.clients) {
		select {
		case err := <-faults:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	done.take()
	fmt.Fprintln(out, "ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		want, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		for end := time.Now().Add(time.Minute); done.waiting() < want && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		times := done.take()
		if n := len(times); n > 0 { // in the order in which they were applied
			fmt.Fprintln(out, n, times[n/2].UnixNano(), times[n*99/100].UnixNano(), times[n-1].UnixNano())
		} else {
			fmt.Fprintln(out, 0, 0, 0, 0)
		}
		select {
		case err := <-faults:
			return err
		default:
		}
	}
	cancel()
	group.Wait()
	return nil
}

// client follows a document and applies every revision. It connects again when the server ends the stream, as servers do with
// a client that is too slow.
func (f fleet) client(ctx context.Context, i int, slots chan struct{}, applied func()) error {
	for {
		if err := f.stream(ctx, i, slots, applied); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
	}
}

// stream applies the revisions of one connection.
func (f fleet) stream(ctx context.Context, i int, slots chan struct{}, applied func()) error {
	slots <- struct{}{}
	conn, reader, err := f.connect(ctx, i)
	<-slots
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		if err := f.apply(data); err != nil {
			return err
		}
		applied()
	}
}

// seen holds the events that a client of this process has applied.
var seen sync.Map

// apply verifies and compiles an event that is new to the process. All other clients only look it up: on machines of their
// own they would work at the same time, here they share the processors with the server.
func (f fleet) apply(event []byte) error {
	if _, ok := seen.Load(string(event)); ok {
		return nil
	}
	envelope, err := protocol.ReadEnvelope(bytes.TrimSpace(event))
	if err != nil {
		return err
	}
	if err := envelope.Verify(ed25519.PublicKey(envelope.Key)); err != nil {
		return err
	}
	if _, err := policyfile.Parse(envelope.Document, []byte(envelope.Body), policyfile.Options{}); err != nil {
		return err
	}
	seen.Store(string(event), true)
	return nil
}

// connect sends the request of a stream and reads the header of the answer. It does without http.Client, whose 10,000
// copies would be most of what is measured.
func (f fleet) connect(ctx context.Context, i int) (conn net.Conn, _ *bufio.Reader, err error) {
	u, err := url.Parse(f.url)
	if err != nil {
		return nil, nil, err
	}
	if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host); err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequest(http.MethodGet, f.url+protocol.LivePath(documentName(i%f.documents)), nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", protocol.TypeStream)
	request.Header.Set("Authorization", "Bearer "+os.Getenv(bearerIn))
	request.Header.Set(protocol.HeaderClient, fmt.Sprintf("client-%d", i))
	if err := request.Write(conn); err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReaderSize(conn, 16<<10)
	response, err := http.ReadResponse(reader, request) //nolint:bodyclose // the connection is closed instead
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return nil, nil, errors.New(response.Status + ": " + string(body))
	}
	return conn, bufio.NewReaderSize(response.Body, 8<<10), nil
}

func documentName(i int) string { return fmt.Sprintf("document-%d", i) }
