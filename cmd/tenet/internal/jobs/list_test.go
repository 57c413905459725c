package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// onePage is a store that fails after the first page of a list.
type onePage struct{ open.JobStore }

var errSecondPage = errors.New("second page")

func (s onePage) List(ctx context.Context, f job.Filter, after string, limit int) ([]*job.Record, error) {
	if after != "" {
		return nil, errSecondPage
	}
	return s.JobStore.List(ctx, f, after, limit)
}

func TestJSONLinesArePrintedWhileJobsAreRead(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	requests := make([]job.Request, PageSize+1)
	for i := range requests {
		requests[i].Type = "t"
	}
	if _, err := job.NewClient(store).EnqueueMany(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	a := &cli.App{Program: cli.Program{Stdout: &out}}
	err := Print(t.Context(), a, onePage{store}, Listing{Hidden: &Secrets{}, Form: cli.FormJSONL})
	if n := strings.Count(out.String(), "\n"); !errors.Is(err, errSecondPage) || n != PageSize {
		t.Errorf("%d lines, %v; want the first page before the error of the second", n, err)
	}
	out.Reset()
	if err := Print(t.Context(), a, store, Listing{Hidden: &Secrets{}, Limit: 2, Form: cli.FormJSONL}); err != nil || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("limit of 2: %q, %v", &out, err)
	}
}
