package pgpipe_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
)

// TestL3ABadRowFailsAlone checks that a bad row does not fail the other rows of its statement.
func TestL3ABadRowFailsAlone(t *testing.T) {
	o, name := newTable(t, "id text PRIMARY KEY, payload jsonb CHECK (payload <> '13')")
	o.Metadata, o.Correlation, o.Parent = "", "", ""
	s := openSink(t, o)
	defer s.Close()
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			payload, bad := "{}", i%20 == 0
			if bad {
				payload = []string{"{", "13"}[i/20%2]
			}
			err := s.Dispatch(t.Context(), pipeline.NewTransaction(fmt.Sprint(i), []byte(payload)))
			if mark, _ := classify.MarkOf(err); bad != (mark == classify.MarkBusiness) || !bad && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	group.Wait()
	if n := count(t, "SELECT count(*) FROM "+name); n != 190 {
		t.Errorf("%d rows", n)
	}
}

func TestMetadataWithNULIsStored(t *testing.T) {
	o, name := newTable(t, queueColumns)
	s := openSink(t, o)
	defer s.Close()
	x := pipeline.NewTransaction("a", nil, pipeline.WithMetadata(map[string]string{pipeline.MetaError: "bro\x00ken"}))
	if err := s.Dispatch(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if got := taken(t, name, "id"); len(got) != 1 || got[0].Metadata(pipeline.MetaError) != "bro�ken" {
		t.Errorf("%v", got)
	}
}

func TestLargePayloadsAreWrittenInParts(t *testing.T) {
	o, name := newTable(t, queueColumns)
	s := openSink(t, o)
	defer s.Close()
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			if err := s.Dispatch(t.Context(), pipeline.NewTransaction(fmt.Sprint(i), make([]byte, 3<<20))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := count(t, "SELECT count(*) FROM "+name+" WHERE length(payload) = 3 << 20"); n != 12 {
		t.Errorf("%d rows", n)
	}
}

func TestOpenRejectsUnsuitableTables(t *testing.T) {
	queue := func(ctx context.Context, o pgpipe.Options) error {
		return closed(pgpipe.OpenQueue(ctx, server.ClockURL(), o))
	}
	sink := func(ctx context.Context, o pgpipe.Options) error {
		return closed(pgpipe.OpenSink(ctx, server.ClockURL(), o))
	}
	box := func(ctx context.Context, o pgpipe.Options) error {
		return closed(pgpipe.OpenOutbox(ctx, server.ClockURL(), o))
	}
	full := queueColumns + ", done_at timestamptz"
	for name, test := range map[string]struct {
		open    func(context.Context, pgpipe.Options) error
		columns string
		change  func(o *pgpipe.Options)
		want    string
	}{
		"no table":          {queue, full, func(o *pgpipe.Options) { o.Table = "public.nothing" }, "nothing"},
		"a NUL":             {queue, full, func(o *pgpipe.Options) { o.Table += "\x00" }, "holds a control character"},
		"a NUL in a column": {sink, full, func(o *pgpipe.Options) { o.Parent = "par\x00ent" }, `parent: "par\x00ent" holds a control character`},
		"no column":         {queue, full, func(o *pgpipe.Options) { o.ID = "key" }, `no column "key" for the id; set the column's name with id=`},
		"no unique index":   {queue, strings.Replace(full, "PRIMARY KEY", "", 1), nil, "unique index of its own; it has none"},
		"a sink without":    {sink, strings.Replace(full, "PRIMARY KEY", "", 1), nil, "unique index"},
		"available":         {queue, full, func(o *pgpipe.Options) { o.Available = "id" }, "timestamptz NOT NULL; it is text"},
		"available may not": {queue, full, func(o *pgpipe.Options) { o.Available = "done_at" }, "timestamptz NOT NULL; it may be null"},
		"deliveries":        {queue, full, func(o *pgpipe.Options) { o.Deliveries = "id" }, "integer NOT NULL"},
		"done":              {queue, full, func(o *pgpipe.Options) { o.Done = "id" }, "timestamptz"},
		"metadata":          {sink, full, func(o *pgpipe.Options) { o.Metadata = "payload" }, "json or jsonb"},
		"parent":            {sink, full, func(o *pgpipe.Options) { o.Parent = "nobody" }, `no column "nobody"`},
		"lease":             {queue, full, func(o *pgpipe.Options) { o.Lease = 1 }, "too short"},
		"consumer":          {box, outboxColumns, nil, "consumer is missing"},
		"tx":                {box, full, func(o *pgpipe.Options) { o.Consumer = "c" }, `no column "tx"`},
		"tx of a wrong type": {box, outboxColumns, func(o *pgpipe.Options) { o.Consumer, o.TX = "c", "seq" },
			"xid8 NOT NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := newTable(t, test.columns)
			if test.change != nil {
				test.change(&o)
			}
			if err := test.open(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want …%s…", err, test.want)
			}
		})
	}
	if err := closed(pgpipe.OpenQueue(t.Context(), "postgres://127.0.0.1:1/none?connect_timeout=2", pgpipe.Options{Table: "t"})); err == nil {
		t.Error("an unreachable server was opened")
	}
}

// closed closes a handle that should not have been opened.
func closed[T interface{ Close() error }](opened T, err error) error {
	if err == nil {
		_ = opened.Close()
	}
	return err
}
