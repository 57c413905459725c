package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/internal/storable"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// once says how a change is protected from being made twice.
type once int

const (
	reads     once = iota // changes nothing
	keyed                 // needs a header Idempotency-Key; a repetition gets the stored answer
	condition             // needs a header If-Match
	named                 // makes something whose name exists once
)

// route is a declared operation of the API.
type route struct {
	huma.Operation
	scope   policystore.Scope // required, unless public
	unbound bool              // not for callers that are bound to queues or documents
	public  bool
	once    once
	stream  bool // the answer may take forever
	free    bool // not rate limited
}

// group is what operations of one tag have in common.
type group struct {
	tag     string
	scope   policystore.Scope
	once    once
	unbound bool
}

func (g group) route(method, path, id, summary string) route {
	return route{
		Operation: huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{g.tag}},
		scope:     g.scope, once: g.once, unbound: g.unbound,
	}
}

// ask is a route that changes nothing, although it is a POST.
func (g group) ask(path, id, summary string) route {
	r := g.route(http.MethodPost, path, id, summary)
	r.Description = "Changes nothing: it is a POST because filters can be long."
	return r
}

// mux registers the handlers of declared operations.
type mux struct {
	*http.ServeMux
	declared map[string]*route // by pattern
	wrap     func(*route, http.Handler) http.Handler
}

// HandleFunc implements humago.Mux. A handler whose operation was not declared panics.
func (m *mux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	o := m.declared[pattern]
	if o == nil || (o.scope == "") != o.public {
		panic("server: " + pattern + " does not say who may call it")
	}
	m.Handle(pattern, m.wrap(o, http.HandlerFunc(handler)))
}

// Bounds of operations that do not set their own.
const (
	defaultBody = 1 << 20
	largeBody   = 32 << 20
	callTime    = 30 * time.Second
	writeTime   = time.Minute
	maxAnswer   = 4 << 20 // of a change, which is stored
)

// declare completes an operation and makes it known to the mux.
func (s *Server) declare(o *route) {
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, defaultBody)
	o.BodyReadTimeout = callTime
	header := func(name, text string) {
		o.Parameters = append(o.Parameters, &huma.Param{Name: name, In: "header", Required: true, Description: text, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	switch o.once {
	case keyed:
		header(tenethttp.HeaderIdempotencyKey, "Names the change: a repetition with the same key is answered with the stored answer, and nothing is done again. "+
			"An answer of 503 is not stored: the change may have been made, and a repetition may make it again. "+
			"If the server dies in the meantime, a repetition gets 409: docs/server.md says what to do.")
	case condition:
		header("If-Match", "The entity tag of what is changed, as a read has returned it.")
	case reads, named:
	}
	o.Security = []map[string][]string{{"token": {}}, {"session": {}}}
	if o.public {
		o.Security = []map[string][]string{}
	} else {
		o.Description = strings.TrimSpace(o.Description + "\n\nScope: " + string(o.scope) + ".")
	}
	s.mux.declared[o.Method+" "+o.Path] = o
}

// register adds an operation with typed input and output.
func register[I, O any](s *Server, o route, handle func(context.Context, *I) (*O, error)) {
	s.declare(&o)
	typed := o.Operation
	typed.MaxBodyBytes++ // huma refuses a body of exactly its limit
	huma.Register(s.api, typed, func(ctx context.Context, in *I) (*O, error) {
		if path, found := unfit(reflect.ValueOf(in)); found {
			return nil, invalid(path, "not valid UTF-8, or contains a NUL character").complete()
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problemOf(ctx, err)
		}
		return out, nil
	})
}

// unaltered is the format of bodies. It refuses texts that encoding/json would change, so that two unique keys, for example, became one.
var unaltered = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: func(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return err
	}
	if !storable.JSON(raw) {
		return errors.New("a text is not UTF-8, or holds half of a surrogate pair; a payload with such text can be sent as payload_base64")
	}
	return nil
}}

// unfit finds a text in an input that no store can keep, and returns its path.
func unfit(v reflect.Value) (path string, found bool) {
	switch v.Kind() {
	case reflect.String:
		return "", !utf8.ValidString(v.String()) || strings.ContainsRune(v.String(), 0)
	case reflect.Pointer:
		if !v.IsNil() {
			return unfit(v.Elem())
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && v.Type().Elem().Kind() != reflect.Uint8; i++ {
			if path, found = unfit(v.Index(i)); found {
				return under(fmt.Sprintf("[%d]", i), path), true
			}
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && v.Type() != reflect.TypeFor[time.Time](); i++ {
			if path, found = unfit(v.Field(i)); !found {
				continue
			}
			f := v.Type().Field(i)
			if f.Anonymous {
				return path, true
			}
			for _, place := range []string{"path", "query", "header"} {
				if name := f.Tag.Get(place); name != "" {
					return under(place+"."+name, path), true
				}
			}
			name, _, _ := strings.Cut(cmp.Or(f.Tag.Get("json"), strings.ToLower(f.Name)), ",")
			return under(name, path), true
		}
	}
	return "", false
}

// under puts the name of a field, or the position of an item, before the path of what is in it.
func under(name, path string) string {
	if path == "" || path[0] == '[' {
		return name + path
	}
	return fields.Join(name, path)
}

// answer is an output that has only a body.
type answer[B any] struct{ Body B }

func answers[B any](body B, err error) (*answer[B], error) {
	if err != nil {
		return nil, err
	}
	return &answer[B]{body}, nil
}

// protect puts everything in front of an operation that is the same for all: limits, identity, scope, read-only mode, and
// the key of a change.
func (s *Server) protect(o *route, next http.Handler) http.Handler {
	if o.once == keyed {
		next = tenethttp.Idempotent(s.guard, tenethttp.IdempotencyOptions{
			Methods: []string{o.Method}, MaxBody: o.MaxBodyBytes, Tenant: func(r *http.Request) string { return callerOf(r.Context()).tenant() },
		})(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if o.once != reads {
			var end context.CancelFunc
			ctx, end = withoutCaller(ctx)
			defer end()
		}
		if !o.stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, callTime)
			defer cancel()
		}
		connection := w
		if observed, ok := w.(*statusWriter); ok {
			connection = observed.ResponseWriter // which is closed after a body that is too large
		}
		// On a copy: of the request that net/http knows, it has to see whether the body was read to its end, as what is left of it
		// would be taken for the next request.
		r = r.WithContext(ctx)
		r.Body = body{http.MaxBytesReader(connection, r.Body, o.MaxBodyBytes+1)} // huma refuses the one byte more
		if o.public {
			if err := s.take(ctx, "address:"+hostOf(r.RemoteAddr)); err != nil && !o.free {
				s.problemOf(ctx, err).write(w)
				return
			}
			next.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		who, err := s.identity.caller(r)
		if err == nil {
			err = cmp.Or(s.admit(o, r, who), checkQuery(r))
		}
		if err != nil {
			if who == nil { // nobody: bounded by where they come from
				err = cmp.Or(s.take(ctx, "address:"+hostOf(r.RemoteAddr)), err)
			}
			s.problemOf(ctx, err).write(w)
			return
		}
		if o.stream {
			w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
			var end context.CancelFunc
			ctx, end = context.WithCancel(ctx)
			defer end()
			defer s.endWithCaller(o, r, end).Stop()
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, who)))
	})
}

// body is a request's body. If it does not arrive completely, that is not the server's fault: the router answers 408, not 500, to errors
// that are timeouts.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); err == nil || err == io.EOF || tooLarge {
		return n, err
	}
	return n, cutOff{err}
}

// cutOff is a net.Error.
type cutOff struct{ error }

func (cutOff) Timeout() bool   { return true }
func (cutOff) Temporary() bool { return true }

// withoutCaller returns the context of a change, which goes on when its caller leaves: the store may make it all the same, and a
// repetition has to know that. It ends with Run, after which the stores may be closed.
func withoutCaller(ctx context.Context) (context.Context, context.CancelFunc) {
	free, end := context.WithCancel(context.WithoutCancel(ctx))
	run, ok := ctx.Value(runKey{}).(context.Context)
	if !ok {
		return free, end
	}
	stop := context.AfterFunc(run, end)
	return free, func() {
		stop()
		end()
	}
}

// endWithCaller ends a stream once its caller may no longer use it, for example because the token was revoked. It looks as often as a
// token is read; a store that does not answer ends nothing.
func (s *Server) endWithCaller(o *route, r *http.Request, end func()) (look *time.Timer) {
	r = r.WithContext(context.WithValue(r.Context(), localKey{}, true)) // unlike a request, it is not subject to the limit of its address
	look = time.AfterFunc(time.Hour, func() {
		who, err := s.identity.caller(r)
		refused, _ := errors.AsType[*problem](err)
		switch {
		case r.Context().Err() != nil:
		case refused != nil && refused.Status == http.StatusUnauthorized, err == nil && o.scope != anyScope && !who.Has(o.scope):
			end()
		default:
			look.Reset(tokenTime)
		}
	})
	look.Reset(tokenTime) // here, so that the function sees the timer
	return look
}

// take counts a request of a caller, or refuses it. Requests that come through Local are not counted.
func (s *Server) take(ctx context.Context, caller string) error {
	if ctx.Value(localKey{}) != nil {
		return nil
	}
	return s.limits.take(caller)
}

// admit decides whether a caller may use an operation now.
func (s *Server) admit(o *route, r *http.Request, who *caller) error {
	if !o.free {
		if err := s.take(r.Context(), "caller:"+who.actor()); err != nil {
			return err
		}
	}
	switch {
	case o.scope != anyScope && !who.Has(o.scope):
		return refusal(http.StatusForbidden, "this operation needs the scope "+string(o.scope), "use a token with this scope; tenet token create makes one")
	case o.once != reads && s.options.ReadOnly:
		return &problem{Problem: api.Problem{
			Type: api.ProblemReadOnly, Status: http.StatusForbidden, Detail: "this server is read-only: it changes nothing",
			Remedy: "send the request to a server that was started without --read-only",
		}}
	case o.once == condition && r.Header.Get("If-Match") == "":
		return refusal(http.StatusPreconditionRequired, "this request needs the header If-Match", "read first, and send the ETag of the answer")
	case o.unbound:
		return who.unbound()
	case strings.HasPrefix(o.Path, documentPath):
		return who.mayDocument(r.PathValue("name"))
	}
	return nil
}

// checkQuery refuses a URL whose parameters would be ignored, so that a list without its filter does not look like the one that was
// asked for. Parameters whose names end in [] are lists, such as the name[] by which Prometheus asks for some metrics only.
func checkQuery(r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refusal(http.StatusBadRequest, "the query of the URL cannot be read: "+err.Error(), "write % in it as %25, and ; as %3B")
	}
	for name, values := range query {
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return invalid("query."+name, "given more than once; write it once")
		}
	}
	return nil
}

// checkDeclared refuses parameters and values of a URL that an operation with parameters does not declare. For operations with typed
// input the router does.
func (o *route) checkDeclared(r *http.Request) error {
	declared := map[string][]any{}
	for _, p := range o.Parameters {
		if p.In == "query" {
			declared[p.Name] = p.Schema.Enum
		}
	}
	if len(declared) == 0 || o.public {
		return nil
	}
	for name, values := range r.URL.Query() {
		switch allowed, known := declared[name]; {
		case !known:
			return invalid("query."+name, "unknown query parameter")
		case len(allowed) > 0 && values[0] != "" && !slices.Contains(allowed, any(values[0])):
			return invalid("query."+name, fmt.Sprintf("write one of %v", allowed))
		}
	}
	return nil
}

// unknown answers requests that no operation matches.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		again := r.Clone(r.Context())
		again.Method = method
		if _, pattern := s.mux.Handler(again); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	p := refusal(http.StatusNotFound, "there is nothing at this path", "check the URL; /v1/openapi.json lists the operations")
	p.Type = "about:blank" // not ProblemNotFound: clients would report that what they asked for does not exist
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		p.Status, p.Detail = http.StatusMethodNotAllowed, "this path does not take "+r.Method
	}
	p.write(w)
}
