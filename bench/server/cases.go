package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/job"
)

func parseFloat(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

// The names of cases that bars compare.
const (
	appliedCase     = "one publication applied by all streaming clients, 99 %"
	memoryCase      = "server with all streaming clients, largest size"
	wokenCase       = "1,000 documents × 10 clients, one publication: clients that wake"
	unchangedCase   = "conditional GET, not modified"
	unchangedBare   = "conditional GET, not modified, bare handler"
	changedCase     = "conditional GET, modified"
	changedBare     = "conditional GET, modified, bare handler"
	enqueueCase     = "enqueue over HTTP, batches of 1,000"
	enqueueLibrary  = "enqueue with the library, batches of 1,000"
	batch           = 1000
	measured        = 2 * time.Second // of a case that counts requests
	connections     = 8
	payloadOfJobs   = `{"to":"a@example.com","subject":"hello"}`
	documentsOfWake = 1000
)

func cases(env *environment, clients int) []bars.Case {
	var size float64
	return []bars.Case{
		{Name: unchangedCase, Unit: "/s", Run: env.get(true)},
		{Name: unchangedBare, Unit: "/s", Run: env.bare(true)},
		{Name: changedCase, Unit: "/s", Run: env.get(false)},
		{Name: changedBare, Unit: "/s", Run: env.bare(false)},
		{Name: enqueueCase, Unit: "jobs/s", Run: env.enqueue},
		{Name: enqueueLibrary, Unit: "jobs/s", Run: env.enqueueMany},
		{Name: wokenCase, Unit: "clients", Run: func(ctx context.Context) (float64, error) {
			f, err := env.fleet(ctx, documentsOfWake, clients)
			return f.woken, err
		}},
		{Name: appliedCase, Unit: "ms", Run: func(ctx context.Context) (float64, error) {
			f, err := env.fleet(ctx, 1, clients)
			size = f.size
			return f.last99, err
		}},
		{Name: memoryCase, Unit: "MiB", Run: func(context.Context) (float64, error) { return size, nil }},
	}
}

func goals() []bars.Bar {
	return []bars.Bar{
		bars.AtMost("10,000 streaming clients, one publication applied everywhere, 99 %", "≤ 1 s", appliedCase, 1000, "ms"),
		bars.AtMost("memory of the server with 10,000 streaming clients", "≤ 1 GiB", memoryCase, 1024, "MiB"),
		bars.Ratio("conditional GET, 2 kB, not modified, to a bare handler", "≥ 0.8 ×", unchangedCase, unchangedBare, "/s", 0.8, 0),
		bars.Ratio("conditional GET, 2 kB, modified, to a bare handler", "≥ 0.8 ×", changedCase, changedBare, "/s", 0.8, 0),
		bars.Ratio("enqueue over HTTP, batches of 1,000, PostgreSQL, to EnqueueMany", "≥ 0.5 ×", enqueueCase, enqueueLibrary, "jobs/s", 0.5, 0),
		bars.AtMost("clients that wake for another's publication: 10 follow each of 1,000 documents", "10", wokenCase, 10, "clients"),
	}
}

// published counts publications, so that each has another content.
var published atomic.Int64

// publish makes a revision of 2 kB.
func (env *environment) publish(ctx context.Context, name string) error {
	var body strings.Builder
	fmt.Fprintf(&body, "version: 1\ndefaults:\n  calls: {retry: {max_attempts: %d}}\npolicies:\n", 2+published.Add(1)%5)
	for i := 0; body.Len() < 2000; i++ {
		fmt.Fprintf(&body, "  service-%d.Call: {retry: {max_attempts: 4, timeout: 300ms, overall_timeout: 2s}}\n", i)
	}
	data, err := json.Marshal(map[string]any{"body": body.String(), "accept_warnings": true})
	if err != nil {
		return err
	}
	return env.post(ctx, "/v1/documents/"+name+"/revisions", data, map[string]string{"If-Match": "*"})
}

func (env *environment) post(ctx context.Context, path string, body []byte, headers map[string]string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, env.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+env.secret)
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil || response.StatusCode >= 300 {
		return errors.Join(fmt.Errorf("POST %s: %s: %.300s", path, response.Status, answer), err)
	}
	return nil
}

// fleetResult is what a publication did to a fleet.
type fleetResult struct{ woken, last99, size float64 }

// fleet runs clients in a process of their own, and publishes one document.
func (env *environment) fleet(ctx context.Context, documents, clients int) (result fleetResult, err error) {
	for i := range documents {
		if err := env.publish(ctx, documentName(i)); err != nil {
			return result, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return result, err
	}
	cmd := exec.CommandContext(ctx, program, "-follow", env.url, "-documents", strconv.Itoa(documents), "-clients", strconv.Itoa(clients))
	cmd.Env = append(os.Environ(), bearerIn+"="+env.secret)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return result, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result, err
	}
	if err := cmd.Start(); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return result, errors.New("the clients did not become ready")
	}
	time.Sleep(3 * time.Second) // what clients and server do after connecting is over
	began := time.Now()
	if err := env.publish(ctx, documentName(0)); err != nil {
		return result, err
	}
	if _, err := fmt.Fprintln(in, clients/documents); err != nil {
		return result, err
	}
	if !lines.Scan() {
		return result, errors.New("the clients ended")
	}
	var middle, last99, last int64
	if _, err := fmt.Sscan(lines.Text(), &result.woken, &middle, &last99, &last); err != nil {
		return result, fmt.Errorf("%q: %w", lines.Text(), err)
	}
	if want := float64(clients / documents); result.woken < want {
		return result, fmt.Errorf("%v of %v clients applied the revision within a minute", result.woken, want)
	}
	fmt.Fprintf(os.Stderr, "publication applied: middle %v, 99 %% %v, last %v\n", time.Unix(0, middle).Sub(began), time.Unix(0, last99).Sub(began), time.Unix(0, last).Sub(began))
	result.last99 = float64(time.Unix(0, last99).Sub(began)) / float64(time.Millisecond)
	result.size, err = memory()
	return result, err
}

// get measures conditional GETs of a document.
func (env *environment) get(unchanged bool) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		encoded, err := env.current(ctx)
		if err != nil {
			return 0, err
		}
		return requests(ctx, strings.TrimPrefix(env.url, "http://"), env.conditional(encoded, unchanged))
	}
}

// bare measures the same requests to a handler that answers the same bytes from memory.
func (env *environment) bare(unchanged bool) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		encoded, err := env.current(ctx)
		if err != nil {
			return 0, err
		}
		tag := protocol.ETag(encoded)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", protocol.TypeJSON)
			w.Header().Set("Content-Length", strconv.Itoa(len(encoded)))
			_, _ = w.Write(encoded)
		})}
		go func() { _ = s.Serve(listener) }()
		defer func() { _ = s.Close() }()
		return requests(ctx, listener.Addr().String(), env.conditional(encoded, unchanged))
	}
}

const polled = "polled"

// current is the answer about a document of 2 kB, which is published first.
func (env *environment) current(ctx context.Context) ([]byte, error) {
	if err := env.publish(ctx, polled); err != nil {
		return nil, err
	}
	time.Sleep(500 * time.Millisecond) // until it is in force
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, env.url+protocol.LivePath(polled), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+env.secret)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", response.Status, body)
	}
	return body, err
}

func (env *environment) conditional(encoded []byte, unchanged bool) []byte {
	tag := `"other"`
	if unchanged {
		tag = protocol.ETag(encoded)
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nTenet-Client: poller\r\nAuthorization: Bearer %s\r\nIf-None-Match: %s\r\n\r\n", protocol.LivePath(polled), env.secret, tag)
}

// requests sends one request again and again over a few connections, and returns answers per second.
func requests(ctx context.Context, address string, request []byte) (float64, error) {
	var count atomic.Int64
	faults := make(chan error, connections)
	began := time.Now()
	for range connections {
		go func() { faults <- repeat(ctx, address, request, began.Add(measured), &count) }()
	}
	var errs []error
	for range connections {
		errs = append(errs, <-faults)
	}
	return float64(count.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}

// repeat does as little as it can, so that the server is what is measured.
func repeat(ctx context.Context, address string, request []byte, until time.Time, count *atomic.Int64) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReaderSize(conn, 16<<10)
	for time.Now().Before(until) {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		length := 0
		for first := true; ; first = false {
			line, err := reader.ReadSlice('\n')
			if err != nil {
				return err
			}
			if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) && !bytes.HasPrefix(line, []byte("HTTP/1.1 304")) {
				return fmt.Errorf("%s", line)
			}
			if len(line) == 2 {
				break
			}
			if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
					return err
				}
			}
		}
		if _, err := reader.Discard(length); err != nil {
			return err
		}
		count.Add(1)
	}
	return nil
}

// enqueue stores jobs over HTTP.
func (env *environment) enqueue(ctx context.Context) (float64, error) {
	one := `{"type":"email:send","payload":` + payloadOfJobs + `}`
	body := []byte(`{"jobs":[` + strings.TrimSuffix(strings.Repeat(one+",", batch), ",") + `]}`)
	return perSecond(func() error {
		return env.post(ctx, "/v1/jobs", body, map[string]string{"Idempotency-Key": fmt.Sprintf("batch-%d-%d", os.Getpid(), published.Add(1))})
	})
}

// enqueueMany stores the same jobs through the library.
func (env *environment) enqueueMany(ctx context.Context) (float64, error) {
	client := job.NewClient(env.jobs.Jobs())
	list := make([]job.Request, batch)
	for i := range list {
		list[i] = job.Request{Type: "email:send", Payload: json.RawMessage(payloadOfJobs)}
	}
	return perSecond(func() error {
		_, err := client.EnqueueMany(ctx, list)
		return err
	})
}

// perSecond repeats a batch on four goroutines.
func perSecond(f func() error) (float64, error) {
	const senders = 4
	faults := make(chan error, senders)
	var count atomic.Int64
	began := time.Now()
	for range senders {
		go func() {
			for time.Since(began) < measured {
				if err := f(); err != nil {
					faults <- err
					return
				}
				count.Add(batch)
			}
			faults <- nil
		}()
	}
	var errs []error
	for range senders {
		errs = append(errs, <-faults)
	}
	return float64(count.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}
