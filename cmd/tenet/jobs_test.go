package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/job"
)

func TestFingerprintKeepsWhatErrorsHaveInCommon(t *testing.T) {
	for text, want := range map[string]string{
		`dial tcp 10.0.0.7:5432: connect: connection refused`:      `dial tcp <n>:<n>: connect: connection refused`,
		`dial tcp 10.0.13.24:5432:  connect: connection refused`:   `dial tcp <n>:<n>: connect: connection refused`,
		`order 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 is gone`:       `order <uuid> is gone`,
		`order 0195F3A2-6C1E-7F64-8D0C-4A4A0C6F1C55 is gone`:       `order <uuid> is gone`,
		`no user "Ann \"Bee\" Cee" in 'blue team' or ` + "`x`":     `no user <text> in <text> or <text>`,
		`can't find it, won't look`:                                `can't find it, won't look`,
		`commit 9fceb02d0ae598e95dc970b74767f19372d61af8 missing`:  `commit <hex> missing`,
		`panic at 0xdeadbeef`:                                      `panic at <hex>`,
		`took 1.5s of 3`:                                           `took <n>s of <n>`,
		"several\nlines":                                           `several lines`,
		`defaced facade`:                                           `defaced facade`,
		``:                                                         ``,
		`POST hooks.example.com: 503 Service Unavailable (try 12)`: `POST hooks.example.com: 503 Service Unavailable (try <n>)`,
	} {
		if got := fingerprint(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestFingerprintKeepsExitCodesStatusesAndPaths(t *testing.T) {
	for text, want := range map[string]string{
		`exec: exit code 75: no host 9`:                      `exec: exit code 75: no host <n>`,
		`exit status 2 after 3s`:                             `exit status 2 after <n>s`,
		`http: POST example.com: 404 Not Found`:              `http: POST example.com: 404 Not Found`,
		`upstream answered HTTP 502, took 40ms`:              `upstream answered HTTP 502, took <n>ms`,
		`unexpected status code 429`:                         `unexpected status code 429`,
		`open /srv/v2/batch-1234/in.csv: no such file`:       `open /srv/v2/batch-<n>/in.csv: no such file`,
		`Get "https://example.com/v1/orders/17": EOF`:        `Get "https://example.com/v1/orders/<n>": EOF`,
		`exec: "backup": executable file not found in $PATH`: `exec: "backup": executable file not found in $PATH`,
		`404 of 500 rows, "a text / more"`:                   `<n> of <n> rows, <text>`,
	} {
		if got := fingerprint(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestErrorGroupsTellThePathsOfHTTPJobsApart(t *testing.T) {
	groups := errorGroups{}
	for _, url := range []string{"https://h/orders/1?k=1", "https://h/orders/2", "https://h/mail", "https://h"} {
		groups.add(&job.Record{Type: "http", Payload: []byte(`{"url":"` + url + `"}`), LastError: "http: GET h: 503 Service Unavailable"})
	}
	var got []string
	for _, g := range groups.list() {
		got = append(got, fmt.Sprint(g.Count, " ", g.Fingerprint))
	}
	text := " http: GET h: 503 Service Unavailable at "
	if diff := cmp.Diff([]string{"2" + text + "/orders/<n>", "1" + text + "/", "1" + text + "/mail"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorGroupsAreTheLargestFirst(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	groups := errorGroups{}
	for _, r := range []job.Record{
		{ID: "a", LastError: "x 1", FailedAt: at(2)}, {ID: "b", LastError: "y", FailedAt: at(4)}, {ID: "c", LastError: "x 22", FailedAt: at(3)},
		{ID: "d", LastError: "x 3", FailedAt: at(1)}, {ID: "e", Reason: "overall_timeout", FinishedAt: at(5)},
	} {
		groups.add(&r)
	}
	want := []errorGroup{
		{"x <n>", 3, at(1), at(3), "c", "x 22"}, {"overall_timeout", 1, at(5), at(5), "e", "overall_timeout"}, {"y", 1, at(4), at(4), "b", "y"},
	}
	if diff := cmp.Diff(want, groups.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "10/s": 100 * time.Millisecond, "120/min": 500 * time.Millisecond, "0.5/s": 2 * time.Second, "60/h": time.Minute} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"10", "10/", "0/s", "-1/s", "NaN/s", "x/s", "1/day", "1e9/s"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestStoreURLs(t *testing.T) {
	for url, want := range map[string][2]string{
		"memory:": {storeMemory, "memory:"}, "sqlite:a/b.db": {storeSQLite, "a/b.db"}, "sqlite:///a.db": {storeSQLite, "/a.db"},
		"postgres://h/d": {storePostgres, "postgres://h/d"}, "postgresql://h/d": {storePostgres, "postgresql://h/d"},
	} {
		if kind, path, err := parseStore(url); err != nil || kind != want[0] || path != want[1] {
			t.Errorf("%s: %q %q %v", url, kind, path, err)
		}
	}
	for _, url := range []string{"", "jobs.db", "sqlite:", "redis://h", "mysql://h"} {
		_, _, err := parseStore(url)
		if f, ok := errors.AsType[*failure](err); !ok || f.code != exitUsage {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestNoErrorShowsThePasswordOfAURL(t *testing.T) {
	for _, url := range []string{
		"redis://user:s3cret@h", "mysql://user:s3cret@h", "host=h password=s3cret", "nats://user:s3cret%zz@h/s",
		"nats://user:s3cret@a,nats://user:s3cret@b:port", "postgres://user:s3cret%zz@h/d", "amqp://user:s3cret%zz@h/q", "http://user:s3cret@h/",
	} {
		for _, args := range [][]string{
			{"jobs", "stats", "--store", url},
			{"run", "--audit", url, "--", "true"},
			{"run", "--idempotency-key", "k", "--idempotency-store", url, "--", "true"},
			{"idempotency", "get", "k", "--store", url},
			{"audit", "verify", url},
			{"consume", "--policy", "-", "orders", "--task", "exec:true", "--source", url},
			{"consume", "--policy", "-", "orders", "--task", "exec:true", "--source", "jobs:" + url},
		} {
			if args[0] == "audit" && !strings.Contains(url, "://") {
				continue // it is a file's name there
			}
			code, out, errs := runIn(t.Context(), map[string]string{}, "version: 1\nconsumers: {orders: {}}\n", args...)
			if code == 0 || strings.Contains(out+errs, "s3cret") {
				t.Errorf("%q: code %d: %s%s", args, code, out, errs)
			}
		}
	}
}

func TestRequeueTakesNoFasterThanItsRate(t *testing.T) {
	synctest.Test(t, requeueTakesNoFasterThanItsRate)
}

func requeueTakesNoFasterThanItsRate(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	client := job.NewClient(store)
	var ids []string
	for range 5 {
		receipt, err := client.Enqueue(t.Context(), job.Request{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, receipt.ID)
	}
	claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "default", Free: 5}}, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range claimed {
		if errs := store.Settle(t.Context(), []job.Settlement{{Ref: r.Ref(), Kind: job.KindDead, Error: "x"}}); errs != nil && errs[0] != nil {
			t.Fatal(errs[0])
		}
	}
	began := time.Now()
	n, err := requeueIDs(t.Context(), store, ids, 20*time.Millisecond)
	if err != nil || n != 5 || time.Since(began) != 80*time.Millisecond {
		t.Errorf("%d requeued in %v: %v", n, time.Since(began), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := requeueIDs(ctx, store, ids, time.Hour); n != 0 || err == nil {
		t.Errorf("after its end: %d, %v", n, err)
	}
}

func TestAWorkerServesHealthAndMetricsUntilItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	store := "sqlite:" + t.TempDir() + "/jobs.db"
	if code, _, errs := runIn(ctx, nil, "", "enqueue", "exec", `{"argv":["true"]}`, "--store", store, "--queue", "mail", "--run-at", "2100-01-01T00:00:00Z"); code != 0 {
		t.Fatal(errs)
	}
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		p := program{lookupEnv: func(string) (string, bool) { return "", false }}
		done <- p.Run(ctx, []string{"worker", "--store", store, "--listen", "127.0.0.1:0"}, strings.NewReader(""), io.Discard, write)
		_ = write.Close()
	}()
	var log strings.Builder
	address := regexp.MustCompile(`address=(\S+)`)
	text := make([]byte, 4096)
	for !strings.Contains(log.String(), "msg=working") {
		n, err := read.Read(text)
		if err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
		log.Write(text[:n])
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	base := "http://" + address.FindStringSubmatch(log.String())[1]
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/livez": "ok", "/readyz": "ok", "/metrics": `tenet_jobs{queue="mail",state="scheduled"} 1`} {
		response, err := client.Get(base + path)
		for err == nil && response.StatusCode == http.StatusServiceUnavailable { // it has not asked its store yet
			_ = response.Body.Close()
			response, err = client.Get(base + path)
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
	cancel(command.Interrupt{Signal: syscall.SIGTERM})
	if code := <-done; code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

func TestASecondSignalEndsAWorkerAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	store := "sqlite:" + t.TempDir() + "/jobs.db"
	if code, _, errs := runIn(ctx, nil, "", "enqueue", "exec", `{"argv":["sleep","3"]}`, "--store", store); code != 0 {
		t.Fatal(errs)
	}
	kill, done := make(chan struct{}), make(chan int, 1)
	go func() {
		p := program{kill: kill, lookupEnv: func(string) (string, bool) { return "", false }}
		done <- p.Run(ctx, []string{"worker", "--store", store, "--allow-exec", "--grace", "1h"}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	for {
		_, out, _ := runIn(t.Context(), nil, "", "jobs", "list", "--state", "running", "--store", store)
		if strings.Contains(out, "exec") {
			break
		}
	}
	cancel(command.Interrupt{Signal: syscall.SIGINT})
	close(kill)
	if code := <-done; code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// TestJ8AnOutageIsNoIdleness: a worker that is to end when nothing is left goes on while the store cannot say so.
func TestJ8AnOutageIsNoIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &awayStore{outages: 3}
		untilIdle(t.Context(), slog.New(slog.DiscardHandler), s, func() map[string]int { return map[string]int{"default": 1} })
		if s.outages != 0 || s.asked != 5 {
			t.Errorf("asked %d times, %d outages left", s.asked, s.outages)
		}
	})
}

// awayStore is away at first, then has one job running, then none.
type awayStore struct {
	jobStore
	outages, asked int
}

func (s *awayStore) Stats(context.Context) (map[string]job.QueueStats, error) {
	s.asked++
	if s.outages > 0 {
		s.outages--
		return nil, errors.New("away")
	}
	return map[string]job.QueueStats{"default": {Running: 5 - s.asked}}, nil
}
