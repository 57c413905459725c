package deliver_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/internal/deliver"
	"github.com/tenetdev/tenet/server/internal/documents"
)

// slow is a store that takes its time for a document.
type slow struct {
	policystore.Store
	on atomic.Bool
}

func (s *slow) Document(ctx context.Context, name string) (policystore.Document, error) {
	if s.on.Load() {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return policystore.Document{}, ctx.Err()
		}
	}
	return s.Store.Document(ctx, name)
}

// TestS2ADocumentWhoseFirstReaderLeftIsFollowed: the first client leaves while the document is being read for it and for another.
func TestS2ADocumentWhoseFirstReaderLeftIsFollowed(t *testing.T) {
	db := memory.Open()
	defer func() { _ = db.Close() }()
	store := &slow{Store: db.Policies()}
	docs, hub := documents.New(store, nil), deliver.New(store, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { hub.Run(ctx) })
	defer group.Wait()
	defer cancel()
	defer hub.Close()
	publish := func(attempts int) {
		if _, err := docs.Publish(ctx, documents.Change{Name: "shop", Base: documents.AnyBase}, body(attempts), false); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	publish(3)
	store.on.Store(true)
	first, leave := context.WithCancel(t.Context())
	group.Go(func() { hub.ServeLive(httptest.NewRecorder(), request(first, "shop")) })
	time.Sleep(50 * time.Millisecond)
	second, end := context.WithCancel(t.Context())
	s := &stream{ResponseWriter: httptest.NewRecorder(), cancel: end, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		hub.ServeLive(s, request(second, "shop", "Accept", protocol.TypeStream))
	}()
	defer s.close()
	time.Sleep(50 * time.Millisecond)
	leave()
	for n, end := 1, time.Now().Add(20*time.Second); n <= 2; {
		if got, _ := s.got(); len(got) == n {
			if n++; n == 2 {
				store.on.Store(false)
				publish(4)
			}
		} else if time.Now().After(end) {
			t.Fatalf("the stream has %v", got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
