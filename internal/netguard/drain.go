package netguard

import (
	"io"
	"net/http"
	"time"
)

// Drain reads and closes a body that is not needed, so that its connection can be used again. A body that is longer than
// most bytes, or takes longer than within, is closed where it stands, and its connection with it; cancel ends the request's context.
func Drain(resp *http.Response, most int64, within time.Duration, cancel func()) {
	defer resp.Body.Close()
	if resp.ContentLength > most {
		return
	}
	timer := time.AfterFunc(within, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, most+1) // a body that fails is closed like any other
}
