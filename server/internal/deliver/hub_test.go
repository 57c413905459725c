package deliver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/internal/deliver"
	"github.com/tenetdev/tenet/server/internal/documents"
)

// broken is a store that can be out of reach.
type broken struct {
	policystore.Store
	down atomic.Bool
	lost atomic.Bool // revision 2 of the document "lost"
	slow atomic.Bool // revisions arrive too late
	mute atomic.Bool // evidence is stored, but the answer is lost
	busy atomic.Bool // evidence takes 20 ms
	adds atomic.Int64

	backup atomic.Pointer[policystore.Store] // if set, documents and keys are read from it: the store was restored
}

func (s *broken) restored() policystore.Store {
	if backup := s.backup.Load(); backup != nil {
		return *backup
	}
	return s.Store
}

var errDown = errors.New("the store is down")

func (s *broken) fault() error {
	if s.down.Load() {
		return errDown
	}
	return nil
}

func (s *broken) Documents(ctx context.Context, after string, limit int) ([]policystore.Document, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	return s.restored().Documents(ctx, after, limit)
}

func (s *broken) Document(ctx context.Context, name string) (policystore.Document, error) {
	if err := s.fault(); err != nil {
		return policystore.Document{}, err
	}
	return s.restored().Document(ctx, name)
}

func (s *broken) Revision(ctx context.Context, name string, number int64) (policystore.Revision, error) {
	if s.lost.Load() && name == "lost" && number == 2 {
		return policystore.Revision{}, errDown
	}
	if s.slow.Load() {
		<-ctx.Done()
		return policystore.Revision{}, ctx.Err()
	}
	return s.restored().Revision(ctx, name, number)
}

func (s *broken) Setting(ctx context.Context, name string) (policystore.Setting, error) {
	return s.restored().Setting(ctx, name)
}

func (s *broken) SaveSetting(ctx context.Context, v policystore.Setting) (policystore.Setting, error) {
	return s.restored().SaveSetting(ctx, v)
}

func (s *broken) SaveClients(ctx context.Context, list []policystore.Client) error {
	if err := s.fault(); err != nil {
		return err
	}
	return s.Store.SaveClients(ctx, list)
}

func (s *broken) AddEvidence(ctx context.Context, list []policystore.Evidence) error {
	if err := s.fault(); err != nil {
		return err
	}
	s.adds.Add(1)
	if s.busy.Load() {
		time.Sleep(20 * time.Millisecond)
	}
	err := s.Store.AddEvidence(ctx, list)
	if s.mute.Load() {
		return errDown
	}
	return err
}

// plane is a hub on a store in memory, in virtual time.
type plane struct {
	t     *testing.T
	store *broken
	docs  *documents.Service
	hub   *deliver.Hub
	log   bytes.Buffer // of the hub; to be read after synctest.Wait
}

// inBubble runs a test with a hub that follows its store.
func inBubble(t *testing.T, test func(t *testing.T, p *plane)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := memory.Open()
		store := &broken{Store: db.Policies()}
		p := &plane{t: t, store: store, docs: documents.New(store, nil)}
		p.hub = deliver.New(store, slog.New(slog.NewTextHandler(&p.log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { p.hub.Run(ctx) })
		synctest.Wait()
		test(t, p)
		p.hub.Close()
		cancel()
		group.Wait()
		_ = db.Close()
	})
}

func body(attempts int) []byte {
	return fmt.Appendf(nil, "version: 1\npolicies:\n  users.Get: {retry: {max_attempts: %d}}\n", attempts)
}

func (p *plane) publish(name string, attempts int, plan *rollout.Plan) policystore.Document {
	p.t.Helper()
	return p.change(documents.Change{Name: name, Base: documents.AnyBase, Plan: plan}, attempts)
}

// try puts a revision under trial.
func (p *plane) try(name string, attempts int) policystore.Document {
	p.t.Helper()
	return p.change(documents.Change{Name: name, Base: documents.AnyBase, Trial: true}, attempts)
}

func (p *plane) change(c documents.Change, attempts int) policystore.Document {
	p.t.Helper()
	published, err := p.docs.Publish(context.Background(), c, body(attempts), false)
	if err != nil {
		p.t.Fatal(err)
	}
	synctest.Wait()
	return published.Document
}

// request makes a request for a document; headers are pairs.
func request(ctx context.Context, name string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, protocol.LivePath(name), http.NoBody)
	r.SetPathValue("name", name)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (p *plane) get(name string, headers ...string) *http.Response {
	w := httptest.NewRecorder()
	p.hub.ServeLive(w, request(context.Background(), name, headers...))
	return w.Result()
}

func (p *plane) revision(response *http.Response) int64 {
	p.t.Helper()
	return p.envelope(response).Revision
}

func (p *plane) envelope(response *http.Response) *protocol.Envelope {
	p.t.Helper()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	e, err := protocol.ReadEnvelope(data)
	if err != nil {
		p.t.Fatalf("%s: %v", data, err)
	}
	if err := e.Verify(); err != nil {
		p.t.Error(err)
	}
	return e
}

// stream is a client of a stream.
type stream struct {
	http.ResponseWriter
	mu     sync.Mutex
	data   bytes.Buffer
	stuck  chan struct{} // if not nil, writes of events wait for it
	cancel context.CancelFunc
	done   chan struct{}
}

func (p *plane) stream(name string, stuck chan struct{}, headers ...string) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	s := &stream{ResponseWriter: httptest.NewRecorder(), stuck: stuck, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		p.hub.ServeLive(s, request(ctx, name, append(headers, "Accept", protocol.TypeStream)...))
	}()
	synctest.Wait()
	return s
}

func (s *stream) Write(data []byte) (int, error) {
	if s.stuck != nil && bytes.Contains(data, []byte("event:")) {
		<-s.stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.Write(data)
}

func (s *stream) Flush() {}

func (s *stream) close() {
	s.cancel()
	<-s.done
}

// got returns the numbers of the revisions sent and the number of heartbeats.
func (s *stream) got() (revisions []int64, heartbeats int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := bufio.NewScanner(bytes.NewReader(s.data.Bytes()))
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			n, _ := strconv.ParseInt(id, 10, 64)
			revisions = append(revisions, n)
		}
		if lines.Text() == ":" {
			heartbeats++
		}
	}
	return revisions, heartbeats
}
