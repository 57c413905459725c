package postgres_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	neturl "net/url"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
)

// dropProxy forwards connections to the server and drops its notifications, as a transaction pooler does. It returns the URL
// to connect to.
func dropProxy(t *testing.T) string {
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
				dropNotifications(client, upstream)
			}()
		}
	}()
	u.Host = listener.Addr().String()
	return u.String()
}

// dropNotifications copies messages: a byte for the type, and four for the length that includes them.
func dropNotifications(to io.Writer, from io.Reader) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if head[0] == 'A' {
			continue
		}
		if _, err := to.Write(append(head[:], body...)); err != nil {
			return
		}
	}
}

func TestJ11LostNotificationsAreReported(t *testing.T) {
	db := openAt(t, dropProxy(t), "deaf")
	if _, err := db.Migrate(context.Background(), postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Jobs().Notify(context.Background()); !errors.Is(err, postgres.ErrNoNotify) {
		t.Fatalf("%v, want %v", err, postgres.ErrNoNotify)
	}
	if _, err := db.Jobs().Enqueue(context.Background(), inserts(1)); err != nil {
		t.Fatal(err)
	}
}

// TestJ11WorkOfThisProcessIsSignalledOnce: at once, and not again when the process receives its own notification.
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
	if _, err := db.Jobs().Enqueue(t.Context(), inserts(1)); err != nil {
		t.Fatal(err)
	}
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
	if _, err := openAt(t, url, schema).Jobs().Enqueue(t.Context(), inserts(1)); err != nil {
		t.Fatal(err)
	}
	count()
	if counts != [len(listeners)]int{1, 1, 1, 1} {
		t.Errorf("signals %v", counts)
	}
}
