package file_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a file that a sink appends to and a source reads.
func queue(name string, o file.SourceOptions, s file.SinkOptions) func(t *testing.T) pipelinetest.Queue {
	return func(t *testing.T) pipelinetest.Queue {
		path := filepath.Join(t.TempDir(), name)
		s.Append = true
		put := func(t *testing.T, list ...*pipeline.Transaction) {
			t.Helper()
			sink := create(t, path, s)
			for _, x := range list {
				if err := sink.Dispatch(t.Context(), x); err != nil {
					t.Fatal(err)
				}
			}
			closeAll(t, sink)
		}
		put(t)
		return pipelinetest.Queue{
			Put: put,
			Source: func(t *testing.T) pipeline.Source {
				source, err := file.OpenSource(path, o)
				if err != nil {
					t.Fatal(err)
				}
				return source
			},
		}
	}
}

// flat makes a transaction whose payload is a flat object of strings, as a row of CSV is.
func flat(i int) *pipeline.Transaction {
	plain := pipelinetest.MakePlain(i)
	payload, _ := json.Marshal(map[string]string{"id": plain.ID(), "text": "a \"quoted\",\nsecond line"})
	return plain.With(pipeline.WithPayload(payload))
}

func TestSource(t *testing.T) {
	for name, o := range map[string]pipelinetest.SourceOptions{
		"jsonl": {
			Open: queue("in.jsonl", file.SourceOptions{}, file.SinkOptions{}), Make: pipelinetest.MakePlain, Finite: true,
		},
		"jsonl followed": {
			Open: queue("in.jsonl", file.SourceOptions{Follow: true}, file.SinkOptions{}), Make: pipelinetest.MakePlain,
		},
		"envelopes followed": {
			Open: queue("in.jsonl", file.SourceOptions{Follow: true, Envelope: true}, file.SinkOptions{Envelope: true}),
		},
		"csv": {
			Open: queue("in.csv", file.SourceOptions{}, file.SinkOptions{Columns: []string{"id", "text"}}), Make: flat, Finite: true,
		},
		"csv followed": {
			Open: queue("in.csv", file.SourceOptions{Follow: true}, file.SinkOptions{Columns: []string{"id", "text"}}), Make: flat,
		},
	} {
		o.Ordered, o.Exclusive, o.Bubble = true, true, synctest.Test
		t.Run(name, func(t *testing.T) { pipelinetest.Sources(t, o) })
	}
}

// target is a file that a sink writes, and a source reads back.
func target(name string, s file.SinkOptions, o file.SourceOptions) func(t *testing.T) pipelinetest.Target {
	return func(t *testing.T) pipelinetest.Target {
		path := filepath.Join(t.TempDir(), name)
		return pipelinetest.Target{
			Sink: func(t *testing.T) pipeline.Sink {
				sink, err := file.OpenSink(path, s)
				if err != nil {
					t.Fatal(err)
				}
				return sink
			},
			Taken: func(t *testing.T) []*pipeline.Transaction {
				read := path + ".part"
				if s.Append {
					read = path
				}
				o.Forget = true
				if o.Format = file.JSONL; filepath.Ext(path) == ".csv" {
					o.Format = file.CSV
				}
				return all(t, read, o)
			},
		}
	}
}

// all reads a whole file.
func all(t *testing.T, path string, o file.SourceOptions) (list []*pipeline.Transaction) {
	t.Helper()
	source, err := file.OpenSource(path, o)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for {
		got, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1000})
		for _, d := range got {
			list = append(list, d.Transaction)
		}
		if len(got) == 0 {
			if err != nil && !errors.Is(err, pipeline.ErrEnd) {
				t.Fatal(err)
			}
			return list
		}
	}
}

func TestSink(t *testing.T) {
	for name, o := range map[string]pipelinetest.SinkOptions{
		"jsonl":       {Open: target("out.jsonl", file.SinkOptions{}, file.SourceOptions{}), Make: pipelinetest.MakePlain},
		"appended":    {Open: target("out.jsonl", file.SinkOptions{Append: true}, file.SourceOptions{}), Make: pipelinetest.MakePlain},
		"not flushed": {Open: target("out.jsonl", file.SinkOptions{NoSync: true}, file.SourceOptions{}), Make: pipelinetest.MakePlain},
		"envelopes":   {Open: target("out.jsonl", file.SinkOptions{Envelope: true}, file.SourceOptions{Envelope: true})},
		"csv":         {Open: target("out.csv", file.SinkOptions{}, file.SourceOptions{}), Make: flat},
	} {
		o.Ordered = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipelinetest.Sinks(t, o)
		})
	}
}
