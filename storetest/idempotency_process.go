package storetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/storetest/internal/models"
)

// processVariable holds the part that a process plays.
const processVariable = "TENET_STORETEST_IDEMPOTENCY"

// processPart is what a process of the suite does.
type processPart struct {
	Play       string // callers, crash or random
	ID         idempotency.ID
	Effects    string // the file that gets a line per effect
	Callers    int
	Point      crashPoint
	ReplaySafe bool
	Lease      time.Duration
	Keys       []string
	Name       string
}

// crashPoint is where a process stops and waits for its end.
type crashPoint string

const (
	beforeClaim crashPoint = "before claim"
	afterClaim  crashPoint = "after claim"
	afterEffect crashPoint = "after effect"
	afterRecord crashPoint = "after record"
	afterReply  crashPoint = "after reply"
)

// IdempotencyProcess plays the part that a suite gave to this process, and ends it. It returns at once in all other
// processes. Call it first in TestMain where [IdempotencyOptions].Process starts the test binary itself.
func IdempotencyProcess(open func() (idempotency.Store, error)) {
	raw := os.Getenv(processVariable)
	if raw == "" {
		return
	}
	if err := runProcess(raw, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runProcess(raw string, open func() (idempotency.Store, error)) error {
	var p processPart
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		return err
	}
	store, err := open()
	if err != nil {
		return err
	}
	switch p.Play {
	case "callers":
		return p.callers(store)
	case "crash":
		return p.crash(store)
	default:
		return p.random(store)
	}
}

// effect leaves a trace: one line in a file, written at once.
func (p processPart) effect() ([]byte, error) {
	f, err := os.OpenFile(p.Effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, err = f.WriteString("effect\n")
	return []byte("the result"), err
}

func (p processPart) options() idempotency.GuardOptions {
	return idempotency.GuardOptions{Lease: p.Lease, ReplaySafe: p.ReplaySafe, Wait: time.Minute}
}

// callers call all at once, when the suite says so.
func (p processPart) callers(store idempotency.Store) error {
	guard, err := idempotency.NewGuard(store, p.options())
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	errs := make([]error, p.Callers)
	atOnce(p.Callers, func(i int) {
		got, err := guard.Do(context.Background(), requestOf(p.ID), func(context.Context) ([]byte, error) {
			time.Sleep(20 * time.Millisecond) // so that the others come meanwhile
			return p.effect()
		})
		if err == nil && string(got) != "the result" {
			err = fmt.Errorf("got %q", got)
		}
		errs[i] = err
	})
	return errors.Join(errs...)
}

// crash runs the effect and stops at the part's point.
func (p processPart) crash(store idempotency.Store) error {
	guard, err := idempotency.NewGuard(crashingStore{store, p}, p.options())
	if err != nil {
		return err
	}
	_, err = guard.Do(context.Background(), requestOf(p.ID), func(context.Context) ([]byte, error) {
		p.stopAt(afterClaim)
		result, err := p.effect()
		p.stopAt(afterEffect)
		return result, err
	})
	p.stopAt(afterReply)
	return errors.Join(err, errors.New("nobody killed the process"))
}

// stopAt waits for the end if this is the part's point.
func (p processPart) stopAt(point crashPoint) {
	if point != p.Point {
		return
	}
	fmt.Println("reached")
	select {}
}

type crashingStore struct {
	idempotency.Store
	part processPart
}

func (s crashingStore) Begin(ctx context.Context, req idempotency.BeginRequest) (idempotency.Begun, error) {
	s.part.stopAt(beforeClaim)
	return s.Store.Begin(ctx, req)
}

func (s crashingStore) Settle(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	err := s.Store.Settle(ctx, c, settlement)
	s.part.stopAt(afterRecord)
	return err
}

// random begins, renews and settles until it is killed, and tells what it does.
func (p processPart) random(store idempotency.Store) error {
	write := writeLines(os.Stdout)
	errs := make([]error, p.Callers)
	atOnce(p.Callers, func(i int) {
		caller := keyCaller{
			store: store, name: fmt.Sprint(p.Name, "-", i), keys: p.Keys, lease: p.Lease,
			called: func(call models.KeyCall) { write(keyLine{Caller: i, Call: call}) },
			answered: func(call models.KeyCall, answer models.KeyAnswer) {
				write(keyLine{Caller: i, Call: call, Answer: &answer})
			},
		}
		errs[i] = caller.run(context.Background(), 0)
	})
	return errors.Join(errs...)
}

// processCases checks what processes see of each other, and what is left of those that are killed.
func processCases() []keysCase {
	return []keysCase{
		{name: "I8/callers in four processes come to one effect", real: true, run: manyProcesses},
		{name: "I4/a process killed at any point leaves what is documented", real: true, run: killedProcesses},
		{name: "I3/begin and settle are linearizable while processes are killed", real: true, run: linearizableProcesses},
	}
}

// child is a process that plays a part.
type child struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *bytes.Buffer
}

func (s *keys) start(p processPart) *child {
	s.Helper()
	raw, err := json.Marshal(p)
	s.must(err, nil)
	c := &child{Cmd: s.options.Process(s.T, s.Store), stderr: &bytes.Buffer{}}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, processVariable+"="+string(raw))
	c.Stderr = c.stderr
	out, err := c.StdoutPipe()
	s.must(err, nil)
	c.out = bufio.NewReader(out)
	c.in, err = c.StdinPipe()
	s.must(err, nil)
	s.must(c.Start(), nil)
	return c
}

// expectLine waits for a line of a process, which must be want.
func (s *keys) expectLine(c *child, want string) {
	s.Helper()
	if got, err := c.out.ReadString('\n'); err != nil || got != want+"\n" {
		_ = c.Process.Kill()
		_ = c.Wait()
		s.Fatalf("a process said %q, %v, and %s; want %q", got, err, c.stderr, want)
	}
}

// effects counts the lines that effects left.
func (s *keys) effects(p processPart) int {
	s.Helper()
	raw, err := os.ReadFile(p.Effects)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return bytes.Count(raw, []byte("\n"))
}

func manyProcesses(s *keys) {
	if s.options.Process == nil {
		return
	}
	const processes, callers = 4, 25
	s.inRealTime()
	part := processPart{Play: "callers", ID: newKey(), Callers: callers, Effects: filepath.Join(s.TempDir(), "effects"), Lease: 10 * time.Second}
	var children []*child
	for range processes {
		children = append(children, s.start(part))
	}
	for _, c := range children {
		s.expectLine(c, "ready")
	}
	for _, c := range children {
		s.must(errorOf(c.in.Write([]byte("\n"))), nil)
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			s.Errorf("a process failed: %v: %s", err, c.stderr)
		}
	}
	same(s, "effects of the callers", s.effects(part), 1)
}

func killedProcesses(s *keys) {
	if s.options.Process == nil {
		return
	}
	s.inRealTime()
	for _, c := range []struct {
		point      crashPoint
		replaySafe bool
		left       int   // effects when the process is killed
		live       error // what a caller gets before the lease ends
		then       error // what a caller gets after it
		effects    int   // effects in the end
	}{
		{beforeClaim, false, 0, nil, nil, 1},
		{beforeClaim, true, 0, nil, nil, 1},
		{afterClaim, false, 0, idempotency.ErrInFlight, idempotency.ErrUnknown, 0},
		{afterClaim, true, 0, idempotency.ErrInFlight, nil, 1},
		{afterEffect, false, 1, idempotency.ErrInFlight, idempotency.ErrUnknown, 1},
		{afterEffect, true, 1, idempotency.ErrInFlight, nil, 2}, // which it has declared to be harmless
		{afterRecord, false, 1, nil, nil, 1},
		{afterRecord, true, 1, nil, nil, 1},
		{afterReply, false, 1, nil, nil, 1},
		{afterReply, true, 1, nil, nil, 1},
	} {
		part := processPart{
			Play: "crash", ID: newKey(), Point: c.point, ReplaySafe: c.replaySafe, Effects: filepath.Join(s.TempDir(), "effects"), Lease: 10 * time.Second,
		}
		if c.live != nil {
			part.Lease = max(2*s.short, time.Second) // for a process to be killed in
		}
		process := s.start(part)
		s.expectLine(process, "reached")
		options := part.options()
		options.Wait = 0
		guard, err := idempotency.NewGuard(s.Store, options)
		s.must(err, nil)
		call := func(want error) {
			s.Helper()
			got, err := guard.Do(s.ctx, requestOf(part.ID), func(context.Context) ([]byte, error) { return part.effect() })
			if !errors.Is(err, want) || err == nil && string(got) != "the result" {
				s.Fatalf("killed %s (replay-safe: %v): %q, %v; want %v", c.point, c.replaySafe, got, err, want)
			}
		}
		s.must(process.Process.Kill(), nil)
		_ = process.Wait()
		same(s, "effects where it was killed, "+string(c.point), s.effects(part), c.left)
		call(c.live)
		if c.live != nil {
			s.lapse(part.Lease)
			call(c.then)
		}
		call(c.then)
		if n := s.effects(part); n != c.effects {
			s.Errorf("killed %s (replay-safe: %v): %d effects in the end, want %d", c.point, c.replaySafe, n, c.effects)
		}
	}
}

func linearizableProcesses(s *keys) {
	if s.options.Process == nil {
		return
	}
	const processes, lives, callers = 3, 3, 3
	lease := 2 * s.contestedLease()
	s.linearizable(lease, func(history *keyHistory) {
		part := processPart{Play: "random", Callers: callers, Lease: lease}
		for range 6 {
			part.Keys = append(part.Keys, newKey().Key)
		}
		atOnce(processes, func(i int) {
			for life := range lives {
				mine := part
				mine.Name = fmt.Sprintf("%s-%d-%d", run, i, life)
				s.runAndKill(mine, history, (i*lives+life)*callers, 40+rand.IntN(60))
			}
		})
	})
}

// runAndKill runs a process for a number of lines, kills it and notes what it did.
func (s *keys) runAndKill(part processPart, history *keyHistory, first, lines int) {
	c := s.start(part)
	open := map[int]models.KeyCall{}
	for n := 0; ; n++ {
		if n == lines {
			_ = c.Process.Kill()
		}
		raw, err := c.out.ReadBytes('\n')
		var line keyLine
		if err != nil || json.Unmarshal(raw, &line) != nil {
			break // a line without its end was cut off by the kill
		}
		if line.Answer == nil {
			open[line.Caller] = line.Call
			continue
		}
		delete(open, line.Caller)
		history.add(first+line.Caller, line.Call, *line.Answer)
	}
	_ = c.Wait()
	if c.stderr.Len() > 0 {
		s.Errorf("a process said: %s", c.stderr)
	}
	for caller, call := range open {
		history.add(first+caller, call, models.KeyAnswer{Pending: true})
	}
}

func requestOf(id idempotency.ID) idempotency.Request {
	return idempotency.Request{Key: id.Key, Tenant: id.Tenant, Operation: id.Operation, Fingerprint: "f"}
}
