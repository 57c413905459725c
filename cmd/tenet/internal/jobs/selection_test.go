package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// askedOnce is a store that lists a running and a completed job, then fails.
type askedOnce struct {
	open.JobStore
	asked bool
}

var errAway = errors.New("away")

func (s *askedOnce) List(context.Context, job.Filter, string, int) ([]*job.Record, error) {
	if s.asked {
		return nil, errAway
	}
	s.asked = true
	return []*job.Record{{ID: "a", State: job.Running}, {ID: "b", State: job.Completed}}, nil
}

func TestJ25AnOutageLeavesKnownOutcomesOfCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := outcomes(t.Context(), &askedOnce{}, []string{"a", "b", "c"}, true)
		if want := map[string]int{"pending": 1, "completed": 1, "cancelled": 1}; !errors.Is(err, errAway) || !maps.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	})
}

// cutOff is a store of two and a half pages of jobs. It changes all but one of the first page, then fails.
type cutOff struct {
	open.JobStore
	pages   int // listed
	changed bool
}

func (s *cutOff) List(context.Context, job.Filter, string, int) ([]*job.Record, error) {
	s.pages++
	list := make([]*job.Record, PageSize)
	for i := range list {
		list[i] = &job.Record{ID: fmt.Sprint(s.pages, i)}
	}
	if s.pages > 2 {
		return list[:PageSize/2], nil
	}
	return list, nil
}

func (s *cutOff) Change(_ context.Context, _ job.Action, f job.Filter, _ int) ([]string, error) {
	if s.changed {
		return nil, errAway
	}
	s.changed = true
	return f.IDs[1:], nil
}

func TestJ25AnOutageLeavesJobsThatWereNotReached(t *testing.T) {
	var out bytes.Buffer
	b := Bulk{Action: job.ActionDelete, Noun: "job", Done: "deleted", Form: cli.FormText}
	err := b.Run(t.Context(), &cli.App{Program: cli.Program{Stdout: &out}}, &cutOff{})
	want := "999 jobs deleted\n1 job left alone, in a state that has changed meanwhile\n1500 jobs not reached\n"
	if !errors.Is(err, errAway) || out.String() != want {
		t.Errorf("%v, %q; want %q", err, &out, want)
	}
}
