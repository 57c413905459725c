package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/bench/bars"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/ui"
)

const (
	requestsOfPage = 50
	watchedFor     = 15 * time.Second
)

// serve serves a store until stdin ends. It prints its address.
func serve(ctx context.Context, at string) error {
	stores, log, err := openStores(ctx, at)
	if err != nil {
		return err
	}
	s, err := server.New(ctx, server.Options{Stores: stores, Log: log, Logger: slog.New(slog.DiscardHandler), Limits: server.Limits{Rate: 1e6, Burst: 1e6}})
	if err != nil {
		return err
	}
	u, err := ui.New(s, ui.Options{})
	if err != nil {
		return err
	}
	s.Mount("/ui/", u.Handler())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop() }() // ends the process
	fmt.Println("http://" + listener.Addr().String())
	return s.Run(ctx, listener)
}

func openStores(ctx context.Context, at string) (stores server.Stores, log *audit.Log, err error) {
	if strings.HasPrefix(at, "postgres") {
		db, err := postgres.Open(ctx, at, postgres.Options{})
		if err != nil {
			return stores, nil, err
		}
		log, err = audit.Open(ctx, db.Audit(), audit.Options{})
		return server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: db.Policies()}, log, err
	}
	db, err := sqlite.Open(ctx, at, sqlite.Options{})
	if err != nil {
		return stores, nil, err
	}
	log, err = audit.Open(ctx, db.Audit(), audit.Options{})
	return server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: db.Audit(), Policies: db.Policies()}, log, err
}

// site is a server process on a store.
type site struct {
	name    string
	jobs    jobStore
	url     string
	process int
	closers []func() error
}

// start starts the server process.
func (s *site) start(ctx context.Context, at string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-serve", at)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return errors.Join(in.Close(), cmd.Wait()) })
	line, err := bufio.NewReader(out).ReadString('\n')
	s.url, s.process = strings.TrimSpace(line), cmd.Process.Pid
	return err
}

func (s *site) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// pages are the pages that are measured; an ID stands for that of a dead job.
func pages() [][2]string {
	filter := func(text string) string { return "jobs?filter=" + url.QueryEscape(text) }
	return [][2]string{
		{"overview", ""}, {"queues", "queues"}, {"queue", "queues/mail"}, {"jobs", "jobs"}, {"dead jobs", filter("state:dead")},
		{"jobs of a queue", filter("queue:mail state:ready")}, {"job", "jobs/ID"}, {"dead letters", "dlq"}, {"policies", "policies"}, {"clients", "clients"},
		{"idempotency", "idempotency"}, {"audit", "audit"}, {"tokens", "tokens"},
		{"search, metadata", filter("meta.tenant:t42")}, {"search, payload", filter("payload.order.id:424242")}, {"search, error", filter("error:unavailable")},
	}
}

// pageCases measure the pages.
func (s *site) pageCases() (list []bars.Case) {
	for _, p := range pages() {
		list = append(list, bars.Case{Name: s.name + ": " + p[0], Unit: "ms", Run: func(ctx context.Context) (float64, error) { return s.page(ctx, p[1]) }})
	}
	return list
}

func (s *site) pageGoals() (list []bars.Bar) {
	for _, p := range pages() {
		limit := 100.0
		if strings.HasPrefix(p[0], "search") {
			limit = 300
		}
		list = append(list, bars.AtMost(s.name+": "+p[0]+", p95", fmt.Sprintf("≤ %g ms", limit), s.name+": "+p[0], limit, "ms"))
	}
	return list
}

// page measures the 95th percentile of a page.
func (s *site) page(ctx context.Context, path string) (float64, error) {
	if strings.Contains(path, "ID") {
		dead, err := s.jobs.List(ctx, job.Filter{States: []job.State{job.Dead}}, "", 1)
		if err != nil || len(dead) == 0 {
			return 0, errors.Join(err, errors.New("no dead job"))
		}
		path = strings.Replace(path, "ID", dead[0].ID, 1)
	}
	times := make([]float64, requestsOfPage)
	for i := range times {
		began := time.Now()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/ui/"+path, nil)
		if err != nil {
			return 0, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s: %s: %w", path, answer.Status, err)
		}
		times[i] = float64(time.Since(began)) / float64(time.Millisecond)
	}
	slices.Sort(times)
	return times[requestsOfPage*95/100-1], nil
}

const (
	liveCPU    = "open live pages: processor time of the server, of one core"
	liveMemory = "open live pages: memory of the server"
)

func (s *site) cases(open int) []bars.Case {
	var size float64
	return append(s.pageCases(),
		bars.Case{Name: liveCPU, Unit: "%", Run: func(ctx context.Context) (share float64, err error) {
			share, size, err = s.live(ctx, open)
			return share, err
		}},
		bars.Case{Name: liveMemory, Unit: "MiB more", Run: func(context.Context) (float64, error) { return size, nil }},
	)
}

func goals(open int, s *site) []bars.Bar {
	return append([]bars.Bar{
		bars.AtMost(fmt.Sprintf("%d open live pages, processor time", open), "≤ 5 % of one core", liveCPU, 5, "%"),
		bars.AtMost(fmt.Sprintf("%d open live pages, memory", open), "≤ 100 MiB more", liveMemory, 100, "MiB"),
	}, s.pageGoals()...)
}

// live measures what open pages cost while jobs are enqueued, above what the same load costs without them.
func (s *site) live(ctx context.Context, open int) (share, size float64, err error) {
	load, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { s.load(load) })
	bare, _, err := s.cost(load)
	if err != nil {
		return 0, 0, err
	}
	before, err := resident(s.process)
	if err != nil {
		return 0, 0, err
	}
	watched := []string{"", "queues", "jobs?filter=" + url.QueryEscape("queue:fresh"), "jobs?filter=" + url.QueryEscape("state:dead"), "jobs"}
	transport := &http.Transport{MaxConnsPerHost: 0}
	defer transport.CloseIdleConnections()
	for i := range open {
		r, err := http.NewRequestWithContext(load, http.MethodGet, s.url+"/ui/live?page="+url.QueryEscape("/ui/"+watched[i%len(watched)]), nil)
		if err != nil {
			return 0, 0, err
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return 0, 0, err
		}
		if answer.StatusCode != http.StatusOK {
			return 0, 0, fmt.Errorf("%s: %s", r.URL, answer.Status)
		}
		group.Go(func() {
			_, _ = io.Copy(io.Discard, answer.Body) // until the end of the load
			_ = answer.Body.Close()
		})
	}
	time.Sleep(2 * time.Second) // the pages have been rendered for the first time
	with, after, err := s.cost(load)
	fmt.Fprintf(os.Stderr, "without pages %.2f %%, with %d pages %.2f %%; %.0f and %.0f MiB\n", bare, open, with, before, after)
	return max(0, with-bare), max(0, after-before), err
}

// load enqueues jobs until ctx ends.
func (s *site) load(ctx context.Context) {
	client := job.NewClient(s.jobs)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
			_, _ = client.Enqueue(ctx, job.Request{Type: "email:send", Queue: "fresh", Payload: []byte(`{}`)}) // what fails is load that is missing
		}
	}
}

// cost is the processor time of the server over a while, in percent of one core, and its memory in MiB at the end.
func (s *site) cost(ctx context.Context) (share, size float64, err error) {
	began, err := ticks(s.process)
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(watchedFor):
	}
	ended, err := ticks(s.process)
	if err != nil {
		return 0, 0, err
	}
	size, err = resident(s.process)
	return (ended - began) / watchedFor.Seconds() * 100, size, err
}

// ticks is the processor time of a process in seconds. Linux counts it in hundredths.
func ticks(pid int) (float64, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("the processor time of the server is unknown")
	}
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err1, err2)
}

// resident is the memory of a process in MiB.
func resident(pid int) (float64, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kilobytes / 1024, err
		}
	}
	return 0, errors.New("the memory of the server is unknown")
}
