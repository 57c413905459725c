package postgres_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	neturl "net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
)

// proxy forwards connections to the server. It calls see for each of the server's messages, which says whether to drop the message and
// whether to end the connection after it. It returns the URL to connect to.
func proxy(t *testing.T, see func(kind byte, body []byte) (drop, last bool)) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				return
			}
			go func() {
				defer upstream.Close()
				_, _ = io.Copy(upstream, client)
			}()
			go func() {
				defer client.Close()
				copyMessages(client, upstream, see)
			}()
		}
	}()
	u.Host = listener.Addr().String()
	return u.String()
}

// copyMessages copies messages: a byte for the type, and four for the length that includes them.
func copyMessages(to io.Writer, from io.Reader, see func(kind byte, body []byte) (drop, last bool)) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		drop, last := see(head[0], body)
		if drop {
			continue
		}
		if _, err := to.Write(append(head[:], body...)); err != nil || last {
			return
		}
	}
}

func TestJ11LostNotificationsAreReported(t *testing.T) {
	pooler := func(kind byte, _ []byte) (drop, last bool) { return kind == 'A', false }
	db := openAt(t, proxy(t, pooler), "deaf")
	if _, err := db.Migrate(context.Background(), postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Jobs().Notify(context.Background()); !errors.Is(err, postgres.ErrNoNotify) {
		t.Fatalf("%v, want %v", err, postgres.ErrNoNotify)
	}
	enqueue(t, db.Jobs(), inserts(1)...)
}

// TestJ11ConnectionsThatListenAreNotRestoredInARush uses a proxy that ends each connection as soon as it listens.
func TestJ11ConnectionsThatListenAreNotRestoredInARush(t *testing.T) {
	db, schema := open(t)
	var hostile, listened atomic.Bool
	var listens atomic.Int64
	far := openAt(t, proxy(t, func(kind byte, body []byte) (drop, last bool) {
		if kind == 'C' && bytes.HasPrefix(body, []byte("LISTEN")) {
			listens.Add(1)
			listened.Store(true)
		}
		return false, hostile.Load() && (kind == 'A' || kind == 'Z' && listened.Swap(false)) // Z ends the answer to LISTEN
	}), schema)
	ctx, cancel := context.WithCancel(t.Context())
	signals, err := far.Jobs().Notify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hostile.Store(true)
	if _, err := db.Jobs().Enqueue(ctx, inserts(1)); err != nil { // the notification ends the first connection
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	cancel()
	for range signals {
	}
	if n := listens.Load(); n < 2 || n > 12 {
		t.Errorf("%d connections listened in a second", n)
	}
}

func TestJ11NotificationsEndWithTheDB(t *testing.T) {
	db, _ := open(t)
	signals, err := db.Jobs().Notify(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	late := time.After(10 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-signals:
		case <-late:
			t.Fatal("the connection still listens")
		}
	}
}

// TestJ11WorkOfThisProcessIsSignalledOnce: at once, and not again when the process receives its own notification.
func TestJ11WorkOfThisProcessIsSignalledOnce(t *testing.T) {
	db, schema := open(t)
	here, err := db.Jobs().Notify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there, err := openAt(t, url, schema).Jobs().Notify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // the tests of the two connections are notifications too
	for _, c := range []<-chan struct{}{here, there} {
		select {
		case <-c:
		default:
		}
	}
	enqueue(t, db.Jobs(), inserts(1)...)
	select {
	case <-here:
	default:
		t.Error("not signalled when Enqueue returned")
	}
	select {
	case <-there:
	case <-time.After(10 * time.Second):
		t.Fatal("the other process was not notified")
	}
	select {
	case <-here:
		t.Error("signalled again")
	case <-time.After(100 * time.Millisecond):
	}
}

// TestJ11EachListenerIsSignalledOnce: several workers on one store do not multiply the announcement of another process.
func TestJ11EachListenerIsSignalledOnce(t *testing.T) {
	db, schema := open(t)
	var listeners [4]<-chan struct{}
	for i := range listeners {
		var err error
		if listeners[i], err = db.Jobs().Notify(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // the tests of the connections are notifications too
	var counts [len(listeners)]int
	count := func() {
		for end := time.After(200 * time.Millisecond); ; {
			select {
			case <-listeners[0]:
				counts[0]++
			case <-listeners[1]:
				counts[1]++
			case <-listeners[2]:
				counts[2]++
			case <-listeners[3]:
				counts[3]++
			case <-end:
				return
			}
		}
	}
	count()
	clear(counts[:])
	enqueue(t, openAt(t, url, schema).Jobs(), inserts(1)...)
	count()
	if counts != [len(listeners)]int{1, 1, 1, 1} {
		t.Errorf("signals %v", counts)
	}
}
