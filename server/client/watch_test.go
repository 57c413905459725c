package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/client"
)

// TestJ24AWatchGoesOnWhereItsStreamHadCome: also where no event had come yet, and after one that cannot be read.
func TestJ24AWatchGoesOnWhereItsStreamHadCome(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	streams := []string{"id: 5\n\n", "id: 7\nevent: job\ndata: {\"id\":\"a\",\"position\":7}\n\nid: 9\nevent: job\n", ": \n\n", ""}
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": \n\n"+streams[len(asked)-1])
		if len(asked) == len(streams) {
			cancel()
		}
	}))
	defer s.Close()
	c, err := client.New(client.Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Jobs().Watch(ctx, job.WatchOptions{After: -1}, func(job.Event) error { return nil })
	s.Close()
	if diff := cmp.Diff([]string{"", "5", "7", "7"}, asked); diff != "" {
		t.Error(diff)
	}
}
