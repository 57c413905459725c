package main

import (
	"bytes"
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/internal/testhttp"
)

// TestS2AHarmfulRevisionIsTakenBackAndAGoodOnePromoted runs the example in virtual time.
func TestS2AHarmfulRevisionIsTakenBackAndAGoodOnePromoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s, closeServer, err := newServer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); s.Work(ctx) }()
		var out bytes.Buffer
		err = story{out: &out, url: "http://localhost", http: &http.Client{Transport: testhttp.Transport{Handler: s.Handler()}}}.tell(ctx)
		s.Drain()
		stop()
		<-ended
		if err != nil {
			t.Fatal(err)
		}
		if err := closeServer(); err != nil {
			t.Error(err)
		}
		want := `revision 1 is in force
revision 2 (one attempt) reaches half of the instances
revision 2: reverted (failures); revision 3 is in force
revision 4 (four attempts) reaches half of the instances
revision 4: promoted (harmless); revision 4 is in force
`
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	})
}
