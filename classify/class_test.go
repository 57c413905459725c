package classify_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

func classes(s classify.Set, err error) []policy.Class {
	var list []policy.Class
	for _, m := range s.Of(err) {
		list = append(list, m.Class)
	}
	return list
}

// refused dials a loopback port that was open a moment ago.
func refused(t *testing.T) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
		t.Fatal("dialling a closed port worked")
	}
	return err
}

// readDeadline reads from a connection after its deadline.
func readDeadline(t *testing.T) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Unix(1, 0))
	_, err = conn.Read(make([]byte, 1))
	return err
}

// get makes a request that fails.
func get(t *testing.T, ctx context.Context, client *http.Client, target string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err == nil {
		response.Body.Close()
		t.Fatal("the request worked")
	}
	return err
}

func TestC4ClassesOfRealErrors(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	_, missing := os.Open(filepath.Join(t.TempDir(), "missing"))
	_, lateDial := (&net.Dialer{}).DialContext(late, "tcp", plain.Listener.Addr().String())
	_, shortRead := io.ReadFull(&response{}, make([]byte, 2))

	cases := map[string]struct {
		err  error
		want []policy.Class
	}{
		"nil":                                       {nil, nil},
		"any other error":                           {errBase, nil},
		"context deadline":                          {context.DeadlineExceeded, []policy.Class{"timeout"}},
		"context's own deadline":                    {late.Err(), []policy.Class{"timeout"}},
		"context canceled":                          {context.Canceled, []policy.Class{"canceled"}},
		"context's own cancellation":                {canceled.Err(), []policy.Class{"canceled"}},
		"wrapped cancellation":                      {fmt.Errorf("x: %w", context.Canceled), []policy.Class{"canceled"}},
		"deadline beats cancellation":               {errors.Join(context.Canceled, context.DeadlineExceeded), []policy.Class{"timeout"}},
		"deadline joined with a refusal":            {errors.Join(refused(t), context.DeadlineExceeded), []policy.Class{"timeout", "connection_refused"}},
		"i/o deadline joined with a refusal":        {errors.Join(refused(t), os.ErrDeadlineExceeded), []policy.Class{"timeout", "connection_refused"}},
		"deadline of a connection":                  {readDeadline(t), []policy.Class{"timeout", "network"}},
		"i/o deadline":                              {os.ErrDeadlineExceeded, []policy.Class{"timeout", "network"}},
		"dial past the deadline":                    {lateDial, []policy.Class{"timeout", "network"}},
		"refused":                                   {refused(t), []policy.Class{"connection_refused"}},
		"refused, wrapped":                          {fmt.Errorf("dial: %w", refused(t)), []policy.Class{"connection_refused"}},
		"refused, joined":                           {errors.Join(errBase, syscall.ECONNREFUSED), []policy.Class{"connection_refused"}},
		"reset":                                     {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, []policy.Class{"connection_reset"}},
		"broken pipe":                               {&net.OpError{Op: "write", Err: syscall.EPIPE}, []policy.Class{"connection_reset"}},
		"no route":                                  {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, []policy.Class{"network"}},
		"closed connection":                         {&net.OpError{Op: "read", Err: net.ErrClosed}, []policy.Class{"network"}},
		"address":                                   {&net.AddrError{Err: "missing port", Addr: "x"}, []policy.Class{"network"}},
		"unknown host":                              {&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, []policy.Class{"dns"}},
		"unknown host while dialling":               {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}, []policy.Class{"dns"}},
		"name server too slow":                      {&net.DNSError{Err: "i/o timeout", IsTimeout: true}, []policy.Class{"timeout", "dns"}},
		"end of file":                               {io.EOF, []policy.Class{"eof"}},
		"unexpected end of file":                    {io.ErrUnexpectedEOF, []policy.Class{"eof"}},
		"short read":                                {shortRead, []policy.Class{"eof"}},
		"untrusted certificate":                     {get(t, t.Context(), http.DefaultClient, secure.URL), []policy.Class{"tls"}},
		"record header":                             {tls.RecordHeaderError{Msg: "not TLS"}, []policy.Class{"tls"}},
		"alert":                                     {tls.AlertError(42), []policy.Class{"tls"}},
		"certificate verification":                  {&tls.CertificateVerificationError{Err: errBase}, []policy.Class{"tls"}},
		"unknown authority":                         {x509.UnknownAuthorityError{}, []policy.Class{"tls"}},
		"host name":                                 {fmt.Errorf("x: %w", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}), []policy.Class{"tls"}},
		"expired certificate":                       {x509.CertificateInvalidError{Reason: x509.Expired}, []policy.Class{"tls"}},
		"request of a canceled caller":              {get(t, canceled, http.DefaultClient, plain.URL), []policy.Class{"canceled"}},
		"request past its deadline":                 {get(t, late, http.DefaultClient, plain.URL), []policy.Class{"timeout"}},
		"request with a client error":               {&url.Error{Op: "Get", URL: "x", Err: errBase}, []policy.Class{"network"}},
		"a missing file is not a network error":     {missing, nil},
		"a system error is not a network error":     {fmt.Errorf("x: %w", syscall.EINVAL), nil},
		"a permission error is not a network error": {&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, classes(classify.Builtin(), c.err)); diff != "" {
				t.Errorf("%T %v: %s", c.err, c.err, diff)
			}
		})
	}
}

func TestC4NoErrorHasNoClass(t *testing.T) {
	set := classify.Set{classify.Custom("anything", "", func(error) bool { return true })}
	if got := set.Of(nil); got != nil {
		t.Errorf("nil has classes %v", got)
	}
}

func TestC4BuiltinListsAllItsClasses(t *testing.T) {
	var names []policy.Class
	for _, family := range classify.Builtin() {
		names = append(names, family.Names...)
	}
	for _, name := range []policy.Class{"timeout", "canceled", "network", "dns", "connection_refused", "connection_reset", "eof", "tls"} {
		if !classify.Builtin().Has(name) || !slices.Contains(names, name) {
			t.Errorf("%s is not known", name)
		}
		if !name.Known() {
			t.Errorf("%s is unknown to policies", name)
		}
	}
}

func TestC4ASetHasClassesAndTheirParents(t *testing.T) {
	set := classify.Set{
		classify.Custom("quota_exceeded", "business_rule", classify.Is(errBase)),
		classify.Custom("row_locked", policy.ClassSQLDeadlock, classify.Is(io.EOF)),
		{Names: []policy.Class{"http_503"}, Of: func(error) policy.Class { return "" }},
		classify.Custom("orphan", "", classify.Is(errBase)),
	}
	has := map[policy.Class]bool{
		"quota_exceeded": true, "business_rule": true, "row_locked": true, "sql_deadlock": true, "sql": true,
		"http_503": true, "http_5xx": true, "orphan": true,
		"": false, "http_500": false, "http_4xx": false, "sql_connection": false, "network": false, "quota": false,
	}
	for class, want := range has {
		if got := set.Has(class); got != want {
			t.Errorf("Has(%q) = %t", class, got)
		}
	}
	if classify.Set(nil).Has("network") {
		t.Error("an empty set has a class")
	}
}

type quotaError struct{ limit int }

func (e *quotaError) Error() string { return fmt.Sprintf("over %d", e.limit) }

func TestC4CustomClasses(t *testing.T) {
	set := append(classify.Builtin(),
		classify.Custom("quota_exceeded", "", classify.As[*quotaError]()),
		classify.Custom("flaky_peer", policy.ClassNetwork, classify.Is(errBase)),
	)
	wrapped := fmt.Errorf("x: %w", &quotaError{3})
	if diff := cmp.Diff([]classify.Match{{Class: "quota_exceeded"}}, set.Of(wrapped)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]classify.Match{{Class: "flaky_peer", Parent: "network"}}, set.Of(errBase)); diff != "" {
		t.Error(diff)
	}
	both := []classify.Match{{Class: "timeout"}, {Class: "quota_exceeded"}}
	if diff := cmp.Diff(both, set.Of(errors.Join(wrapped, context.DeadlineExceeded))); diff != "" {
		t.Error(diff)
	}
	if got := set.Of(io.ErrClosedPipe); got != nil {
		t.Errorf("a foreign error has classes %v", got)
	}
}

func TestC4MatchLiesWithinItsParents(t *testing.T) {
	cases := []struct {
		match classify.Match
		wide  policy.Class
		want  bool
	}{
		{classify.Match{Class: "http_503"}, "http_503", true},
		{classify.Match{Class: "http_503"}, "http_5xx", true},
		{classify.Match{Class: "http_503"}, "http_4xx", false},
		{classify.Match{Class: "http_5xx"}, "http_503", false},
		{classify.Match{Class: "grpc_unavailable"}, "grpc", true},
		{classify.Match{Class: "flaky_peer", Parent: "dns"}, "flaky_peer", true},
		{classify.Match{Class: "flaky_peer", Parent: "dns"}, "dns", true},
		{classify.Match{Class: "flaky_peer", Parent: "dns"}, "network", true},
		{classify.Match{Class: "flaky_peer", Parent: "dns"}, "eof", false},
		{classify.Match{Class: "flaky_peer"}, "", false},
		{classify.Match{}, "network", false},
	}
	for _, c := range cases {
		if got := c.match.Within(c.wide); got != c.want {
			t.Errorf("%+v within %q: %t", c.match, c.wide, got)
		}
	}
}
