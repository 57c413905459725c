package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// runIn runs the command line in this process, with an environment of its own.
func runIn(ctx context.Context, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	p := program{lookupEnv: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}
	code = p.Run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestStdinIsADocument(t *testing.T) {
	code, out, errs := runIn(t.Context(), nil, "version: 1\npolicies: {a.B: {}}\n", "policy", "show", "a.B", "--policy", "-", "-o", "jsonl")
	if code != 0 || errs != "" || !strings.Contains(out, `"source":"file"`) {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestAnInterruptDecidesTheExitCodeOfEveryCommand(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(command.Interrupt{Signal: signal})
		for _, args := range [][]string{{"demo"}, {"run", "--", "true"}} {
			if code, _, errs := runIn(ctx, nil, "", args...); code != want {
				t.Errorf("%v: code %d, want %d: %s", args, code, want, errs)
			}
		}
		if code, _, _ := runIn(ctx, nil, "", "version"); code != 0 {
			t.Errorf("a command that was done all the same has code %d", code)
		}
	}
}

func TestAnInterruptEndsAReadOfStdin(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	read, write := io.Pipe()
	defer write.Close()
	go func() {
		_, _ = io.WriteString(write, "version: 1\n") // taken: the command is reading
		cancel(command.Interrupt{Signal: syscall.SIGINT})
	}()
	p := program{lookupEnv: func(string) (string, bool) { return "", false }}
	if code := p.Run(ctx, []string{"policy", "check", "-"}, read, io.Discard, io.Discard); code != 130 {
		t.Errorf("code %d, want 130", code)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	var errs strings.Builder
	p := program{lookupEnv: func(string) (string, bool) { return "", false }}
	if code := p.Run(t.Context(), []string{"policy", "limits"}, nil, full{}, &errs); code != exitFailed || !strings.Contains(errs.String(), "disk full") {
		t.Errorf("code %d: %s", code, &errs)
	}
}

func TestColorPrecedence(t *testing.T) {
	for name, test := range map[string]struct {
		color string
		env   map[string]string
		want  bool
	}{
		"no terminal": {colorAuto, nil, false},
		"always":      {colorAlways, map[string]string{"NO_COLOR": "1"}, true},
		"never":       {colorNever, nil, false},
	} {
		a := &app{program: program{lookupEnv: func(n string) (string, bool) { v, ok := test.env[n]; return v, ok }}, color: test.color}
		if got := a.colored(io.Discard); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// anyRetry draws a policy as calls have them.
func anyRetry(t *rapid.T) policy.Retry {
	backoff := time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "backoff"))
	return policy.Retry{
		InitialBackoff: backoff, BackoffMultiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"),
		MaxBackoff:   time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "cap")),
		Jitter:       policy.Jitter(rapid.SampledFrom(policy.Jitter("").Values()).Draw(t, "jitter")),
		JitterFactor: rapid.Float64Range(0, 1).Draw(t, "factor"),
	}
}

func TestNoSeedWaitsLongerThanTheWorstCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRetry(t)
		s := newSchedule(&r, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 6).Draw(t, "retries"))
		for i, d := range s.delays {
			low, high := spread(&r, i)
			if d < low || d > high || s.longest[i] != high || s.mean[i] < low || s.mean[i] > high {
				t.Fatalf("retry %d: %v, mean %v, not in %v to %v", i, d, s.mean[i], low, high)
			}
		}
	})
}

func TestTheExpectedTotalIsTheMeanOverSeeds(t *testing.T) {
	for _, jitter := range policy.Jitter("").Values() {
		r := policy.Retry{InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 2, MaxBackoff: 3 * time.Second, Jitter: policy.Jitter(jitter), JitterFactor: 0.5}
		const retries, seeds = 5, 4000
		var total time.Duration
		for seed := range uint64(seeds) {
			for i := range retries {
				total += decision.Delay(&r, decision.Seed(fmt.Sprint(seed)), i)
			}
		}
		got, want := float64(total)/seeds, float64(sum(newSchedule(&r, 1, retries).mean))
		if got < want*0.95 || got > want*1.05 {
			t.Errorf("%s: seeds wait %v on average, expected %v", jitter, time.Duration(got), time.Duration(want))
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1499 * time.Nanosecond: "1µs", 12_345 * time.Microsecond: "12.3ms", 1_234_567 * time.Microsecond: "1.23s", time.Hour: "1h0m0s",
	} {
		if got := brief(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}
