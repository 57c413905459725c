package file_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

const benchLines = 1_000_000

// order is one line of the benchmarks: about 230 bytes.
type order struct {
	ID       string   `json:"id"`
	Customer string   `json:"customer"`
	Email    string   `json:"email"`
	Amount   float64  `json:"amount"`
	Currency string   `json:"currency"`
	Items    []string `json:"items"`
	Note     string   `json:"note"`
}

func writeLines(tb testing.TB, path string, n int) (size int64) {
	tb.Helper()
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	e := json.NewEncoder(w)
	for i := range n {
		err := e.Encode(order{
			ID: fmt.Sprintf("order-%07d", i), Customer: fmt.Sprintf("customer-%05d", i%99991), Email: "somebody@example.org",
			Amount: float64(i) / 100, Currency: "EUR", Items: []string{"first-item", "second-item", "third-item"},
			Note: "leave it at the door, ring twice, and mind the dog that sleeps behind it",
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	closeAll(tb, f)
	return info.Size()
}

// copyLines copies a file through an engine whose task does nothing.
func copyLines(tb testing.TB, in, out string, concurrency int, o file.SinkOptions) pipeline.Summary {
	tb.Helper()
	source, sink := open(tb, in, file.SourceOptions{}), create(tb, out, o)
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = concurrency, 1000
	p.Loop.Batch.Interval = time.Second
	summary, err := pipeline.NewConsumer(source, pipeline.Raw{Sink: sink}, p).Run(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	closeAll(tb, sink, source)
	return summary
}

// BenchmarkCopy copies a file through a pipeline that stores its acknowledgements on disk, and by a hand-written loop.
func BenchmarkCopy(b *testing.B) {
	dir := b.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	size := writeLines(b, in, benchLines)
	report := func(b *testing.B) {
		b.ReportMetric(float64(benchLines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	}
	for _, c := range []struct {
		concurrency int
		o           file.SinkOptions
	}{{10, file.SinkOptions{NoSync: true}}, {100, file.SinkOptions{NoSync: true}}, {1000, file.SinkOptions{}}} {
		name := fmt.Sprintf("concurrency=%d/flushed=%v", c.concurrency, !c.o.NoSync)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for i := range b.N {
				out := filepath.Join(dir, fmt.Sprintf("out-%d.jsonl", i))
				if s := copyLines(b, in, out, c.concurrency, c.o); s.Success != benchLines {
					b.Fatalf("%+v", s)
				}
				os.Remove(in + ".offset")
				os.Remove(out)
			}
			report(b)
		})
	}
	b.Run("by hand", func(b *testing.B) {
		b.SetBytes(size)
		for range b.N {
			byHand(b, in, filepath.Join(dir, "hand.jsonl"), new(map[string]any))
		}
		report(b)
	})
	b.Run("by hand, into a struct", func(b *testing.B) {
		b.SetBytes(size)
		for range b.N {
			byHand(b, in, filepath.Join(dir, "hand.jsonl"), new(order))
		}
		report(b)
	})
}

// byHand reads, decodes, encodes and writes each line.
func byHand[T any](tb testing.TB, in, out string, value *T) {
	tb.Helper()
	from, err := os.Open(in)
	if err != nil {
		tb.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(out)
	if err != nil {
		tb.Fatal(err)
	}
	defer to.Close()
	r, w := bufio.NewScanner(from), bufio.NewWriterSize(to, 1<<16)
	e := json.NewEncoder(w)
	for r.Scan() {
		var zero T
		*value = zero
		if err := json.Unmarshal(r.Bytes(), value); err != nil {
			tb.Fatal(err)
		}
		if err := e.Encode(value); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := to.Sync(); err != nil {
		tb.Fatal(err)
	}
}

// TestL7MemoryIsFlat checks that a file ten times as long needs no more memory.
func TestL7MemoryIsFlat(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever GOGC says
	peak := func(n int) uint64 {
		dir := t.TempDir()
		in := filepath.Join(dir, "in.jsonl")
		writeLines(t, in, n)
		stop, done := make(chan struct{}), make(chan uint64)
		runtime.GC()
		go func() {
			var most uint64
			var m runtime.MemStats
			for {
				select {
				case <-stop:
					done <- most
					return
				case <-time.After(5 * time.Millisecond):
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapInuse)
				}
			}
		}()
		copyLines(t, in, filepath.Join(dir, "out.jsonl"), 10, file.SinkOptions{NoSync: true})
		close(stop)
		return <-done
	}
	few, many := 20_000, 200_000
	if testing.Short() {
		few, many = few/5, many/5
	}
	small := peak(few)
	large := peak(many)
	t.Logf("heap in use: %d KiB for %d lines, %d KiB for %d", small>>10, few, large>>10, many)
	if large > small+16<<20 {
		t.Errorf("the heap grew from %d to %d bytes with the file", small, large)
	}
}
