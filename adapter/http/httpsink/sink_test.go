package httpsink_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// endpoint stores requests, one for each idempotency key.
type endpoint struct {
	mu    sync.Mutex
	taken []*pipeline.Transaction
	down  bool
	*httptest.Server
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || e.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	id := r.Header.Get("Idempotency-Key")
	for _, t := range e.taken {
		if t.ID() == id {
			return
		}
	}
	e.taken = append(e.taken, pipeline.NewTransaction(id, body))
}

func (e *endpoint) list(*testing.T) []*pipeline.Transaction {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*pipeline.Transaction(nil), e.taken...)
}

// restart breaks all connections, and answers 503 for a while.
func (e *endpoint) restart(*testing.T) {
	for _, down := range []bool{true, false} {
		e.mu.Lock()
		e.down = down
		e.mu.Unlock()
		e.CloseClientConnections()
		time.Sleep(50 * time.Millisecond)
	}
}

func open(t *testing.T, address string, o httpsink.Options) *httpsink.Sink {
	t.Helper()
	o.AllowPrivateNetworks = true
	sink, err := httpsink.New(address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func TestSink(t *testing.T) {
	pipelinetest.Sinks(t, pipelinetest.SinkOptions{
		Open: func(t *testing.T) pipelinetest.Target {
			e := newEndpoint(t)
			return pipelinetest.Target{
				Sink:  func(t *testing.T) pipeline.Sink { return open(t, e.URL, httpsink.Options{}) },
				Taken: e.list, Restart: e.restart,
			}
		},
		Make: pipelinetest.MakePlain, Ordered: true, Deduplicates: true,
	})
}

// answering makes a sink for an endpoint that always answers the same.
func answering(t *testing.T, o httpsink.Options, answer http.HandlerFunc) *httpsink.Sink {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return open(t, server.URL, o)
}

var transaction = pipeline.NewTransaction("order-1", []byte(`{"id":"order-1"}`))

func TestC4AResponseIsClassified(t *testing.T) {
	for code, want := range map[int]classify.Mark{
		200: classify.Unmarked, 204: classify.Unmarked, 301: classify.MarkBusiness, 304: classify.MarkBusiness, 307: classify.MarkBusiness,
		400: classify.MarkBusiness, 404: classify.MarkBusiness, 408: classify.Unmarked, 409: classify.MarkBusiness,
		422: classify.MarkBusiness, 425: classify.MarkBusiness, 429: classify.Unmarked, 500: classify.Unmarked, 501: classify.Unmarked, 503: classify.Unmarked,
	} {
		var requests atomic.Int32
		err := answering(t, httpsink.Options{}, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
		}).Dispatch(t.Context(), transaction)
		mark, _ := classify.MarkOf(err)
		if mark != want || (err == nil) != (code < 300) {
			t.Errorf("%d: mark %v of %v", code, mark, err)
		}
		status, ok := errors.AsType[*tenethttp.StatusError](err)
		if ok != (code >= 300) || ok && (status.StatusCode != code || !status.IdempotencyKey) {
			t.Errorf("%d: %+v", code, status)
		}
		if requests.Load() != 1 {
			t.Errorf("%d: %d requests for one dispatch", code, requests.Load())
		}
	}
}

func TestC5RetryAfterIsHonoured(t *testing.T) {
	err := answering(t, httpsink.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}).Dispatch(t.Context(), transaction)
	if mark, after := classify.MarkOf(err); mark != classify.MarkAfter || after != 7*time.Second {
		t.Errorf("%v, %v: %v", mark, after, err)
	}
}

// TestC4TheClassifierAgrees checks that a policy with tenethttp's classifier decides alike: a POST with a key may be retried,
// a 400 may not.
func TestC4TheClassifierAgrees(t *testing.T) {
	for code, attempts := range map[int]int32{503: 3, 400: 1, 301: 1} {
		var requests atomic.Int32
		sink := answering(t, httpsink.Options{}, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.WriteHeader(code)
		})
		var p policy.Consumer
		p.Steps.Success.Retry = policy.Retry{MaxAttempts: 3, InitialBackoff: time.Millisecond, ClassifierName: tenethttp.ClassifierName}
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transaction), pipeline.Raw{Sink: sink}, p,
			pipeline.WithExecutorOptions(retry.ExecutorOptions{
				Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()},
			})).Run(t.Context())
		if err != nil || summary.Failed != 1 || requests.Load() != attempts {
			t.Errorf("%d: %d requests, %+v, %v", code, requests.Load(), summary, err)
		}
	}
}

func TestL11TheRequestCarriesTheTransaction(t *testing.T) {
	var got *http.Request
	var body string
	sink := answering(t, httpsink.Options{Method: "put", Header: http.Header{
		"Authorization": {"Bearer s3cret"}, "Content-Type": {"text/plain"}, "Host": {"shop.example"},
	}}, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r, string(raw)
	})
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if err := sink.Dispatch(t.Context(), pipeline.NewTransaction("order-1", []byte("x"),
		pipeline.WithMetadata(map[string]string{pipeline.MetaTraceParent: trace, pipeline.MetaTraceState: "v=1"}))); err != nil {
		t.Fatal(err)
	}
	have := []string{body, got.Host, got.Header.Get("Idempotency-Key"), got.Header.Get("Traceparent"), got.Header.Get("Tracestate"), got.Header.Get("Authorization"), got.Header.Get("Content-Type")}
	want := []string{"x", "shop.example", "order-1", trace, "v=1", "Bearer s3cret", "text/plain"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{"line\nbreak", "späti", strings.Repeat("x", 300)} {
		if err := sink.Dispatch(t.Context(), pipeline.NewTransaction(id, nil)); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if key := got.Header.Get("Idempotency-Key"); !strings.HasPrefix(key, "sha256-") {
			t.Errorf("%q has the key %q", id, key)
		}
	}
}

func TestL2TimeoutBoundsARequest(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	sink := answering(t, httpsink.Options{Timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) { <-release })
	if err := sink.Dispatch(t.Context(), transaction); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	sent := make(chan int64, 1)
	sink := answering(t, httpsink.Options{MaxPayload: 10}, func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 1<<20)
		var n int64
		for range 64 {
			written, err := w.Write(block)
			n += int64(written)
			if err != nil {
				break
			}
		}
		sent <- n
	})
	if err := sink.Dispatch(t.Context(), pipeline.NewTransaction("a", []byte("0123456789"))); err != nil {
		t.Fatal(err)
	}
	if n := <-sent; n == 64<<20 {
		t.Error("an answer of 64 MiB was read to its end")
	}
	err := sink.Dispatch(t.Context(), pipeline.NewTransaction("a", []byte("0123456789a")))
	if mark, _ := classify.MarkOf(err); mark != classify.MarkBusiness {
		t.Errorf("%v", err)
	}
}

func TestPrivateAddressesAreRefusedAndURLsStaySecret(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") }))
	defer server.Close()
	sink, err := httpsink.New(server.URL+"/hook?token=s3cret", httpsink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	err = sink.Dispatch(t.Context(), transaction)
	mark, _ := classify.MarkOf(err)
	if _, ok := errors.AsType[*httpsink.ForbiddenAddressError](err); !ok || mark != classify.MarkPermanent {
		t.Errorf("%v", err)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error shows the URL: %v", err)
	}
}

func TestO3AnInvalidLocationIsNotShown(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://a b/?token=s3cret", http.StatusFound))
	t.Cleanup(server.Close)
	err := open(t, server.URL, httpsink.Options{AllowPrivateNetworks: true}).Dispatch(t.Context(), transaction)
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "Location") {
		t.Error(err)
	}
}

func TestAMissingResponseLeavesTheOutcomeUnknown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	err = open(t, "http://"+address+"/hook?token=s3cret", httpsink.Options{}).Dispatch(t.Context(), transaction)
	if mark, _ := classify.MarkOf(err); err == nil || mark != classify.Unmarked || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v", err)
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for _, address := range []string{"", "/hook", "ftp://x/", "http://", "http://%zz/"} {
		if _, err := httpsink.New(address, httpsink.Options{}); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
	if _, err := httpsink.New("http://x/", httpsink.Options{Method: "a b"}); err == nil {
		t.Error("a method with a space was accepted")
	}
}
