package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenetdev/tenet/policy"
)

func TestA4WorkLargerThanMemoryNeedsATemporaryFile(t *testing.T) {
	var sink MemorySink
	for n := range 20_000 { // all of one work, so that they are kept together
		e := Event{
			SchemaVersion: SchemaVersion, ID: fmt.Sprint("event-", n), Type: RetryAttempt, Time: start, Surface: "call", Key: "user.Get",
			WorkID: "work", WorkSeq: n + 1, Decision: "retry", Reason: policy.ReasonRetry,
		}
		w := encoder{}
		w.event(&e)
		sink.lines = append(sink.lines, w.b)
	}
	if _, err := Statistics(bg, &sink, Spill{Memory: 1, Dir: filepath.Join(t.TempDir(), "missing")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	r, err := Statistics(bg, &sink, Spill{Memory: 1, Dir: t.TempDir()})
	if err != nil || r.Total.Calls != 1 || r.Total.Retries != 20_000 {
		t.Errorf("%+v, %v", r, err)
	}
}

// ending is a source whose reader's context ends with the last line.
type ending struct {
	MemorySink
	ended atomic.Bool
}

func (s *ending) Read(ctx context.Context, after string, f func(string, []byte) error) error {
	defer s.ended.Store(true)
	return s.MemorySink.Read(ctx, after, f)
}

// context returns a context that ends when the source has been read.
func (s *ending) context() context.Context { return &endingContext{bg, s} }

type endingContext struct {
	context.Context
	source *ending
}

func (c *endingContext) Err() error {
	if c.source.ended.Load() {
		return context.Canceled
	}
	return nil
}

func TestA4EvaluationEndsWhenItsContextDoes(t *testing.T) {
	for name, evaluate := range map[string]func(context.Context, Source) error{
		"replay": func(ctx context.Context, s Source) error { _, err := Replay(ctx, s, ReplayOptions{}); return err },
		"stats":  func(ctx context.Context, s Source) error { _, err := Statistics(ctx, s, Spill{}); return err },
		"what if": func(ctx context.Context, s Source) error {
			_, err := WhatIf(ctx, s, policy.NewSet(policy.SetConfig{}), ReplayOptions{})
			return err
		},
	} {
		var source ending
		l := open(t, &source, Options{})
		appendTo(t, l, failed("call", 1))
		closeLog(t, l)
		if err := evaluate(source.context(), &source); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "audit: "+name) {
			t.Errorf("%s: %v", name, err)
		}
		source.ended.Store(false)
		if err := evaluate(bg, &source); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
