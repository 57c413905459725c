package controlplane

import "context"

// RemoteDocument is a provider of one document behind HTTP. Create it with [NewRemoteDocument].
type RemoteDocument struct{ *live }

// NewRemoteDocument makes a provider of the document, YAML or JSON, at GET {URL}/policies. One goroutine polls it every TTL
// (up to a tenth early) and ends with Close. NewRemoteDocument does not wait for the control plane: an error means that an
// option is wrong. It ignores RemoteOptions.NegativeTTL and MaxKeys.
//
// A document that is gone (404) stays in force as last known good, with policy.ErrPolicyNotFound.
func NewRemoteDocument(o RemoteOptions) (*RemoteDocument, error) {
	getter, err := newGetter(o)
	if err != nil {
		return nil, err
	}
	return &RemoteDocument{newFollowed(&httpStore{getter: getter}, StoredOptions{
		Name: getter.base + documentPath, Interval: o.TTL, Timeout: o.Timeout, MinBackoff: o.MinBackoff, MaxBackoff: o.MaxBackoff,
		CachePath: o.CachePath, Limits: o.Limits, OnChange: o.OnChange, OnError: o.OnError, Logger: o.Logger,
	})}, nil
}

const documentPath = "/policies"

// httpStore is the document of a control plane. It keeps the last answer, which it returns while that has not changed.
type httpStore struct {
	getter *getter
	last   response
}

func (h *httpStore) Load(ctx context.Context) (data []byte, revision string, err error) {
	answer, err := h.getter.get(ctx, documentPath, h.last.etag)
	if err != nil {
		return nil, "", err
	}
	if !answer.unchanged {
		h.last = answer
	}
	return h.last.body, digest(h.last.body), nil // not the ETag: some servers forget to change it
}

func (h *httpStore) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }
