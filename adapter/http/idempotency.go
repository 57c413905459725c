package tenethttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// The headers of idempotent requests. Idempotency-Key is defined by the IETF draft
// draft-ietf-httpapi-idempotency-key-header-07.
const (
	HeaderIdempotencyKey = "Idempotency-Key"
	// HeaderReplayed is "true" on an answer that was stored before.
	HeaderReplayed = "Idempotency-Replayed"
)

// IdempotencyOptions configure [Idempotent]. The zero value works.
type IdempotencyOptions struct {
	// Methods are the methods whose requests need a key, default POST and PATCH. Other requests pass.
	Methods []string
	// Optional lets requests without a key pass; by default they get 400.
	Optional bool
	// Tenant returns the owner of the key, so that tenants do not share keys. Default: all requests are one tenant's.
	Tenant func(r *http.Request) string
	// Operation names what a request does in events and logs. Default: the pattern that it matched, else method and path (of a
	// path that is too long, or holds control characters, the SHA-256). It is part of the fingerprint, not of the key's scope.
	Operation func(r *http.Request) string
	// MaxBody is the largest request body in bytes; a larger one gets 413. Default 1 MiB. The body is read before the handler
	// runs, since it is part of the fingerprint.
	MaxBody int64
}

const defaultMaxBody = 1 << 20

// Idempotent runs a handler once per key and answers repetitions with the stored answer. A key belongs to its tenant, and to
// the guard's operation: one guard for all endpoints means that a key used again for another endpoint is a mismatch. Services
// that share a store need guards with operations of their own (idempotency.GuardOptions). The answer is recorded before it
// is sent, so handlers cannot stream, nor send trailers.
//
// An answer with a status of 500 and above, 408, 425 or 429 is sent but not kept: to the guard it is a *[StatusError], and the
// next request runs unless the guard's classifier calls that error final. A handler that panics leaves its outcome unknown,
// unless the guard is ReplaySafe.
//
// Authenticate callers outside of it, and return them as Tenant. Inside, a 401 would be kept as the key's answer, and a stored answer
// would go to anyone who sends the key and the request again.
//
// The handler's context ends when its caller leaves. If the handler then answers 503 although its store goes on, as PostgreSQL may, the
// next request runs it again: call such a store under [context.WithoutCancel].
//
//	no key, a bad key             400
//	the body is cut off           408; the handler did not run
//	the body is too large         413
//	another request with the key  422; another method, path, query, Content-Type or body
//	in flight                     409, Retry-After
//	outcome unknown               409
//	failed for good before        409
//	done, but without its answer  409
//	the store is down             503, Retry-After; the handler did not run
//
// These are problem documents (RFC 9457); idempotency.RefusedError has the mapping.
func Idempotent(guard *idempotency.Guard, o IdempotencyOptions) func(http.Handler) http.Handler {
	argument.Need(guard != nil, "tenethttp: Idempotent: the guard")
	if len(o.Methods) == 0 {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), defaultMaxBody)
	return func(next http.Handler) http.Handler {
		argument.Need(next != nil, "tenethttp: Idempotent: the handler")
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slices.Contains(o.Methods, r.Method) || o.Optional && len(r.Header.Values(HeaderIdempotencyKey)) == 0 {
				next.ServeHTTP(w, r)
				return
			}
			if p := o.serve(guard, next, w, r); p != nil {
				p.write(w)
			}
		})
	}
}

// serve answers a request that needs a key, or returns the problem with it.
func (o *IdempotencyOptions) serve(guard *idempotency.Guard, next http.Handler, w http.ResponseWriter, r *http.Request) *problem {
	key, p := keyOf(r)
	if p != nil {
		return p
	}
	unread := r.Body
	if unread == nil { // no server made the request
		unread = http.NoBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, unread, o.MaxBody))
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return &problem{status: http.StatusRequestEntityTooLarge, name: "body-too-large", detail: fmt.Sprintf("the body may have %d bytes", o.MaxBody)}
		}
		return &problem{status: http.StatusRequestTimeout, name: "unreadable-body", detail: "the body did not arrive completely; send the request again"}
	}
	effect := idempotency.Effect[*answer]{Request: o.request(r, key, body), Codec: answers{}}
	outcome := idempotency.Once(r.Context(), guard, effect, func(ctx context.Context) (*answer, error) {
		again := r.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		defer func() { r.MultipartForm = again.MultipartForm }() // whose files the server removes
		a := &answer{own: http.Header{}}
		next.ServeHTTP(a, again)
		a.WriteHeader(http.StatusOK)
		return a, a.failure(r)
	})
	switch {
	case !outcome.Ran && outcome.Err != nil:
		return problemOf(outcome.Err)
	case !outcome.Ran:
		outcome.Value.header.Set(HeaderReplayed, "true")
	}
	outcome.Value.send(w) // even if it could not be recorded: the effect has happened
	return nil
}

func (o *IdempotencyOptions) request(r *http.Request, key string, body []byte) idempotency.Request {
	request := idempotency.Request{Key: key}
	if o.Tenant != nil {
		request.Tenant = o.Tenant(r)
	}
	operation := o.operation(r)
	uri := r.RequestURI // as the client sent it: an outer handler may have cut a prefix off the URL
	if uri == "" {
		uri = r.URL.RequestURI()
	}
	request.Fingerprint = idempotency.FingerprintBytes(
		[]byte(r.Method), []byte(uri), []byte(operation), []byte(r.Header.Get("Content-Type")), body)
	request.Work = observe.Work{Key: policy.ParseKey(operation), Surface: policy.SurfaceCall, Operation: operation}
	return request
}

// operation returns the name of a request's operation.
func (o *IdempotencyOptions) operation(r *http.Request) string {
	switch {
	case o.Operation != nil:
		return o.Operation(r)
	case r.Pattern != "":
		return r.Pattern
	}
	name := r.Method + " " + r.URL.Path
	if idempotency.CheckKey(name) != nil { // too long, or with control characters
		sum := sha256.Sum256([]byte(r.URL.Path))
		name = r.Method + " sha256:" + hex.EncodeToString(sum[:])
	}
	return name
}

// keyOf reads the key: a string of structured fields (RFC 9651), or the bare text that many clients send.
func keyOf(r *http.Request) (string, *problem) {
	values := r.Header.Values(HeaderIdempotencyKey)
	bad := &problem{status: http.StatusBadRequest, name: "bad-key", detail: HeaderIdempotencyKey + " must be one string of 1 to 255 bytes without control characters"}
	switch {
	case len(values) == 0:
		return "", &problem{status: http.StatusBadRequest, name: "missing-key", detail: "this request needs the header " + HeaderIdempotencyKey}
	case len(values) > 1:
		return "", bad
	}
	key := strings.TrimSpace(values[0])
	if strings.HasPrefix(key, `"`) {
		inner, ok := unquote(key)
		if !ok {
			return "", bad
		}
		key = inner
	}
	if idempotency.CheckKey(key) != nil {
		return "", bad
	}
	return key, nil
}

// unquote reads a string of structured fields: printable ASCII in quotes, with \" and \\.
func unquote(s string) (string, bool) {
	if len(s) < 2 || !strings.HasSuffix(s, `"`) {
		return "", false
	}
	var b strings.Builder
	for i := 1; i < len(s)-1; i++ {
		c := s[i]
		if c == '\\' {
			i++
			if c = s[i]; i == len(s)-1 || c != '"' && c != '\\' {
				return "", false
			}
		} else if c == '"' || c < 0x20 || c > 0x7e {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// answer buffers the handler's answer until it is recorded.
type answer struct {
	own    http.Header // the handler's
	header http.Header // what it was when the status was written
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.own }

// WriteHeader implements http.ResponseWriter. It panics for the same statuses as the server's.
func (a *answer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("tenethttp: invalid WriteHeader code %d", status))
	}
	if a.status == 0 && status >= 200 {
		a.status, a.header = status, a.own.Clone()
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// failure is the error of an answer that is not kept: the server failed or asks for a repetition.
func (a *answer) failure(r *http.Request) error {
	if a.status >= 500 || slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}, a.status) {
		return &StatusError{Method: r.Method, Host: r.Host, StatusCode: a.status, IdempotencyKey: true}
	}
	return nil
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

// storedAnswer is an answer as it is stored in its record.
type storedAnswer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// answers is the codec of answers. It omits the headers that belong to one connection or session.
type answers struct{}

// Encode implements idempotency.Codec.
func (answers) Encode(a *answer) ([]byte, error) {
	header := a.header.Clone()
	for _, own := range []string{"Date", "Connection", "Set-Cookie", "Content-Length", "Transfer-Encoding"} {
		header.Del(own)
	}
	return json.Marshal(storedAnswer{Status: a.status, Header: header, Body: a.body.Bytes()})
}

// Decode implements idempotency.Codec.
func (answers) Decode(raw []byte) (*answer, error) {
	var stored storedAnswer
	if err := json.Unmarshal(raw, &stored); err != nil {
		return nil, err
	}
	if stored.Status < 200 || stored.Status > 999 {
		return nil, fmt.Errorf("%d is not the status of an answer", stored.Status)
	}
	a := &answer{header: stored.Header, status: stored.Status}
	if a.header == nil {
		a.header = http.Header{}
	}
	a.body.Write(stored.Body)
	return a, nil
}

// problem is a problem document.
type problem struct {
	of     string // what refused the request; "" for idempotency
	status int
	name   string
	detail string
	wait   time.Duration // > 0 sets Retry-After
}

// problemOf describes a guard's refusal.
func problemOf(err error) *problem {
	p := &problem{status: http.StatusServiceUnavailable, name: "unavailable", detail: "the request was not processed; try again"}
	refusal, ok := errors.AsType[*idempotency.RefusedError](err)
	if !ok {
		return p
	}
	p.status, p.wait = refusal.Status(), refusal.RetryAfter
	switch refusal.Reason {
	case policy.ReasonIdempotencyInFlight:
		p.name, p.detail = "in-flight", "a request with this key is being processed"
	case policy.ReasonIdempotencyMismatch:
		p.name, p.detail = "mismatch", "the key was used for another request: repeat that request unchanged, or use another key"
	case policy.ReasonIdempotencyBadKey:
		p.name, p.detail = "bad-key", err.Error()
	case policy.ReasonOutcomeUnknown:
		p.name, p.detail = "outcome-unknown", "it is not known whether an earlier request with this key was processed; an operator has to find out"
	case policy.ReasonIdempotencyFailed:
		p.name, p.detail = "failed", "the request has failed for good before"
		if _, done := errors.AsType[*idempotency.ResultError](err); done {
			p.name, p.detail = "done", "the request has been processed; its answer was not kept"
		}
	}
	return p
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	if p.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.wait+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "urn:tenet:" + cmp.Or(p.of, "idempotency") + ":" + p.name, "title": http.StatusText(p.status), "status": p.status, "detail": p.detail,
	})
}
