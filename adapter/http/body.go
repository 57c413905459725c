package tenethttp

import (
	"io"
	"net/http"
	"time"

	"github.com/tenetdev/tenet/internal/netguard"
)

// The bounds on reading the body of an earlier attempt, which delays the next one.
const (
	maxDrain  = 64 << 10
	drainTime = 100 * time.Millisecond
)

// held is a response that has not been handed to the caller.
type held struct {
	response *http.Response
	release  func() // ends the context of its attempt
}

// hold makes the attempt's context live as long as the response's body is read.
func hold(resp *http.Response, release func()) held {
	switch b := resp.Body.(type) {
	case nil:
		resp.Body = http.NoBody
		release()
	case io.ReadWriteCloser: // after 101 Switching Protocols
		resp.Body = &upgraded{body{b, release}, b}
	default:
		if b == http.NoBody {
			release()
			break
		}
		resp.Body = &body{b, release}
	}
	return held{resp, release}
}

// drain reads the rest of a response, within bounds, so that its connection can be used again.
func (h held) drain() { netguard.Drain(h.response, maxDrain, drainTime, h.release) }

// body releases the attempt's context when it has been read or closed.
type body struct {
	io.ReadCloser
	release func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// upgraded is the body of a connection that was switched to another protocol; only Close ends it.
type upgraded struct {
	body
	io.Writer
}

func (u *upgraded) Read(p []byte) (int, error) { return u.ReadCloser.Read(p) }
