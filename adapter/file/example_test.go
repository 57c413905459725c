package file_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

// Rows of CSV become lines of JSON; the malformed row becomes a dead letter.
func Example() {
	dir, err := os.MkdirTemp("", "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	in, out := filepath.Join(dir, "orders.csv"), filepath.Join(dir, "orders.jsonl")
	_ = os.WriteFile(in, []byte("id,item\no-1,tea\no-2\no-3,cake\n"), 0o600)

	var letters pipeline.MemorySink
	source, err := file.OpenSource(in, file.SourceOptions{Poison: &letters})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	sink, err := file.OpenSink(out, file.SinkOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	shout := func(_ context.Context, row []byte) ([]byte, error) { return bytes.ToUpper(row), nil }
	p := policy.Consumer{}
	p.Loop.Batch.Size = 100
	summary, err := pipeline.NewConsumer(source, pipeline.Into(shout, sink), p).Run(context.Background())
	if err != nil {
		fmt.Println(err)
	}
	if err := sink.Close(); err != nil { // the file appears here
		fmt.Println(err)
	}
	raw, _ := os.ReadFile(out)
	fmt.Printf("%d\n%s", summary.Success, raw)
	for _, t := range letters.Transactions() {
		fmt.Println("bad: line", t.Metadata(file.MetaLine))
	}
	// Output:
	// 2
	// {"ID":"O-1","ITEM":"TEA"}
	// {"ID":"O-3","ITEM":"CAKE"}
	// bad: line 3
}
