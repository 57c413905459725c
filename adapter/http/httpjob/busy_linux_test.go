package httpjob

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/internal/busy"
	"github.com/tenetdev/tenet/job"
)

// TestJ8AJobThatLacksAFileDescriptorUsesUpNoAttempt, whether to connect or to look up a name: the job waits, and its history says why.
func TestJ8AJobThatLacksAFileDescriptorUsesUpNoAttempt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		l := before
		l.Cur = n
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(before.Cur)
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "localhost"); err != nil { // reads the resolver's files
		t.Fatal(err)
	}
	handle := Handler(Options{AllowPrivateNetworks: true})
	for _, url := range []string{server.URL, "http://tenet.example.com/"} {
		store := memory.Open().Jobs()
		receipt, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: Type, Payload: Payload{URL: url}, MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := job.NewWorker(store)
		job.Handle(w, Type, func(ctx context.Context, j job.Job[Payload]) error {
			cancel()
			limit(3)
			defer limit(before.Cur)
			return handle(ctx, j)
		})
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		r, history, err := store.Get(t.Context(), receipt.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.State != job.Scheduled || r.Failures != 0 || r.RunAt.Sub(r.ClaimedAt) < busy.Delay || len(history) != 1 ||
			!strings.Contains(history[0].Error, syscall.EMFILE.Error()) {
			t.Errorf("%s: %s at %v after %d failures, %+v", url, r.State, r.RunAt, r.Failures, history)
		}
	}
}
