package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/pipeline"
)

const lines = 1_000_000

// order is one line: about 230 bytes.
type order struct {
	ID       string   `json:"id"`
	Customer string   `json:"customer"`
	Email    string   `json:"email"`
	Amount   float64  `json:"amount"`
	Currency string   `json:"currency"`
	Items    []string `json:"items"`
	Note     string   `json:"note"`
}

// input is a file of lines, written once.
type input struct {
	folder, path string
	size         int64
}

func newInput() (in *input, err error) {
	in = &input{}
	if in.folder, err = os.MkdirTemp("", "benchpipelines"); err != nil {
		return nil, err
	}
	in.path = filepath.Join(in.folder, "in.jsonl")
	f, err := os.Create(in.path)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	e := json.NewEncoder(w)
	for i := range lines {
		err = errors.Join(err, e.Encode(order{
			ID: fmt.Sprintf("order-%07d", i), Customer: fmt.Sprintf("customer-%05d", i%99991), Email: "somebody@example.org",
			Amount: float64(i) / 100, Currency: "EUR", Items: []string{"first-item", "second-item", "third-item"},
			Note: "leave it at the door, ring twice, and mind the dog that sleeps behind it",
		}))
	}
	err = errors.Join(err, w.Flush())
	if info, failed := f.Stat(); failed == nil {
		in.size = info.Size()
	}
	return in, errors.Join(err, f.Close())
}

func (in *input) close() error { return os.RemoveAll(in.folder) }

// through returns the MB/s of lines through an engine whose task does nothing. Acknowledgements are synced to disk; the sink
// syncs its file when it is closed, as the hand-written loop does.
func (in *input) through(ctx context.Context) (rate float64, err error) {
	out := filepath.Join(in.folder, "out.jsonl")
	defer func() { err = errors.Join(err, os.Remove(in.path+".offset"), os.Remove(out)) }()
	source, err := file.OpenSource(in.path, file.SourceOptions{})
	if err != nil {
		return 0, err
	}
	sink, err := file.OpenSink(out, file.SinkOptions{NoSync: true})
	if err != nil {
		return 0, err
	}
	p := consumerPolicy()
	p.Loop.Batch.Size, p.Loop.Batch.Interval = 1000, time.Second
	began := time.Now()
	summary, err := pipeline.NewConsumer(source, pipeline.Raw{Sink: sink}, p).Run(ctx)
	err = errors.Join(err, sink.Close(), source.Close())
	took := time.Since(began)
	if err == nil && summary.Success != lines {
		err = fmt.Errorf("%+v", summary)
	}
	return float64(in.size) / 1e6 / took.Seconds(), err
}

// loop reads, decodes, encodes and writes each line.
func (in *input) loop(context.Context) (rate float64, err error) {
	from, err := os.Open(in.path)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := os.Create(filepath.Join(in.folder, "loop.jsonl"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Close(), os.Remove(to.Name())) }()
	began := time.Now()
	scanner := bufio.NewScanner(bufio.NewReaderSize(from, 1<<20))
	w := bufio.NewWriterSize(to, 1<<20)
	e := json.NewEncoder(w)
	for scanner.Scan() {
		var o order
		if err := json.Unmarshal(scanner.Bytes(), &o); err != nil {
			return 0, err
		}
		if err := e.Encode(&o); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(scanner.Err(), w.Flush(), to.Sync()); err != nil {
		return 0, err
	}
	return float64(in.size) / 1e6 / time.Since(began).Seconds(), nil
}
