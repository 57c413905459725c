package netguard

import "net/http"

// WithoutRedirects returns a client that does not follow redirects: net/http would send custom headers to other hosts. A client
// with a CheckRedirect stays as it is; nil is a new client.
func WithoutRedirects(client *http.Client) *http.Client {
	if client == nil {
		client = &http.Client{}
	}
	if client.CheckRedirect != nil {
		return client
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}
