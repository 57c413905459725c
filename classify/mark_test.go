package classify_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tenetdev/tenet/classify"
)

var errBase = errors.New("base")

func TestC3MarksAreFoundThroughWrapping(t *testing.T) {
	wraps := map[string]func(error) error{
		"as it is":  func(err error) error { return err },
		"%w":        func(err error) error { return fmt.Errorf("load: %w", err) },
		"%w twice":  func(err error) error { return fmt.Errorf("a: %w", fmt.Errorf("b: %w", err)) },
		"two %w":    func(err error) error { return fmt.Errorf("%w after %w", io.EOF, err) },
		"Join":      func(err error) error { return errors.Join(io.EOF, err) },
		"Join in w": func(err error) error { return fmt.Errorf("all: %w", errors.Join(io.EOF, err)) },
	}
	marks := map[string]struct {
		err      error
		mark     classify.Mark
		pushback time.Duration
	}{
		"none":             {errBase, classify.Unmarked, 0},
		"permanent":        {classify.Permanent(errBase), classify.MarkPermanent, 0},
		"unrecoverable":    {classify.Unrecoverable(errBase), classify.MarkPermanent, 0},
		"business":         {classify.Business(errBase), classify.MarkBusiness, 0},
		"after":            {classify.After(errBase, time.Minute), classify.MarkAfter, time.Minute},
		"after no wait":    {classify.After(errBase, 0), classify.MarkAfter, 0},
		"after a negative": {classify.After(errBase, -time.Second), classify.MarkAfter, 0},
	}
	for how, wrap := range wraps {
		for name, m := range marks {
			t.Run(name+"/"+how, func(t *testing.T) {
				err := wrap(m.err)
				if mark, pushback := classify.MarkOf(err); mark != m.mark || pushback != m.pushback {
					t.Errorf("got mark %d and %s, want %d and %s", mark, pushback, m.mark, m.pushback)
				}
				if !errors.Is(err, errBase) {
					t.Error("the error inside is lost")
				}
			})
		}
	}
}

func TestC3OutermostMarkCounts(t *testing.T) {
	cases := map[string]struct {
		err      error
		mark     classify.Mark
		pushback time.Duration
	}{
		"permanent around after":    {classify.Permanent(classify.After(errBase, time.Second)), classify.MarkPermanent, 0},
		"after around permanent":    {classify.After(classify.Permanent(errBase), time.Second), classify.MarkAfter, time.Second},
		"business around after":     {classify.Business(fmt.Errorf("x: %w", classify.After(errBase, 1))), classify.MarkBusiness, 0},
		"after around after":        {classify.After(classify.After(errBase, 1), 2), classify.MarkAfter, 2},
		"wrapped outer, bare inner": {fmt.Errorf("x: %w", classify.Business(classify.Permanent(errBase))), classify.MarkBusiness, 0},
		"first branch of a join":    {errors.Join(classify.Business(errBase), classify.Permanent(errBase)), classify.MarkBusiness, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if mark, pushback := classify.MarkOf(c.err); mark != c.mark || pushback != c.pushback {
				t.Errorf("got mark %d and %s, want %d and %s", mark, pushback, c.mark, c.pushback)
			}
		})
	}
}

func TestC3MarksKeepNilAndTheText(t *testing.T) {
	marks := map[string]func(error) error{
		"permanent": classify.Permanent, "unrecoverable": classify.Unrecoverable, "business": classify.Business,
		"after": func(err error) error { return classify.After(err, time.Second) },
	}
	for name, mark := range marks {
		t.Run(name, func(t *testing.T) {
			if err := mark(nil); err != nil {
				t.Errorf("a mark on nil gives %v", err)
			}
			if got := mark(errBase).Error(); got != "base" {
				t.Errorf("text %q", got)
			}
		})
	}
	if mark, pushback := classify.MarkOf(nil); mark != classify.Unmarked || pushback != 0 {
		t.Errorf("nil has mark %d, %s", mark, pushback)
	}
}
