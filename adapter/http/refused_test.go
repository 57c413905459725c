package tenethttp_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/retry"
)

// TestC6RefusedStreams: an HTTP/2 server that refuses a stream has not processed it, so even a POST may be retried. A stream
// that breaks for another reason proves nothing.
func TestC6RefusedStreams(t *testing.T) {
	for code, attempts := range map[http2.ErrCode]int32{http2.ErrCodeRefusedStream: 3, http2.ErrCodeInternal: 1} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newPipes()
				defer network.Close()
				var streams atomic.Int32
				go func() {
					for {
						conn, err := network.Accept()
						if err != nil {
							return
						}
						go refuse(conn, code, &streams)
					}
				}()
				var protocols http.Protocols
				protocols.SetUnencryptedHTTP2(true)
				base := &http.Transport{DialContext: network.dial, Protocols: &protocols}
				defer base.CloseIdleConnections()
				client := &http.Client{Transport: base}
				if _, err := client.Post("http://x/", "text/plain", strings.NewReader("order")); err == nil {
					t.Fatal("the server refused no stream")
				}
				perAttempt := streams.Swap(0) // net/http retries refused streams itself before it gives up
				c := tenethttp.Client{HTTP: client, Executor: retry.NewExecutor(options(t, fixed()))}
				_, err := c.Do(t.Context(), request(t, "POST", "http://x/", strings.NewReader("order")), key)
				if err == nil || streams.Load() != attempts*perAttempt {
					t.Errorf("%v after %d streams, want an error after %d attempts of %d", err, streams.Load(), attempts, perAttempt)
				}
			})
		})
	}
}

// refuse is a server that resets every stream.
func refuse(conn net.Conn, code http2.ErrCode, streams *atomic.Int32) {
	defer conn.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	writes := make(chan func() error, 100) // a pipe blocks until its other end reads
	defer close(writes)
	go func() {
		for write := range writes {
			if write() != nil {
				conn.Close()
			}
		}
	}()
	writes <- func() error { return framer.WriteSettings() }
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if f, ok := frame.(*http2.HeadersFrame); ok {
			streams.Add(1)
			id := f.StreamID
			writes <- func() error { return framer.WriteRSTStream(id, code) }
		}
	}
}
