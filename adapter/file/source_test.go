package file_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/adapter/file"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

var quiet = slog.New(slog.DiscardHandler)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	rewrite(t, path, text)
	return path
}

func rewrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func grow(t testing.TB, path, text string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
}

func open(t testing.TB, path string, o file.SourceOptions) *file.Source {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	source, err := file.OpenSource(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	return source
}

func fetch(t testing.TB, s *file.Source, most int) []pipeline.Delivery {
	t.Helper()
	got, err := s.Fetch(context.Background(), pipeline.FetchRequest{Max: most})
	if err != nil && !errors.Is(err, pipeline.ErrEnd) {
		t.Fatal(err)
	}
	return got
}

func ack(t testing.TB, s *file.Source, list ...pipeline.Delivery) {
	t.Helper()
	if errs := s.Ack(context.Background(), list); errs != nil {
		t.Fatal(errs)
	}
}

func ids(list []pipeline.Delivery) (ids []string) {
	for _, d := range list {
		ids = append(ids, d.Transaction.ID())
	}
	return ids
}

func TestL11AnIDIsTheRecordsOwnOrItsPosition(t *testing.T) {
	path := write(t, "in.jsonl", "{\"id\":\"a\"}\n\n{\"x\":1}\n[1]\n{\"id\":7}\n")
	got := fetch(t, open(t, path, file.SourceOptions{}), 10)
	if diff := cmp.Diff([]string{"a", path + ":12", path + ":20", "7"}, ids(got)); diff != "" {
		t.Error(diff)
	}
	rows := write(t, "in.csv", "id;text\na;1\n;\"2;\n\"\"3\"\n")
	got = fetch(t, open(t, rows, file.SourceOptions{Comma: ';'}), 10)
	if diff := cmp.Diff([]string{"a", rows + ":12"}, ids(got)); diff != "" {
		t.Error(diff)
	}
	if payload := string(got[1].Transaction.Payload()); payload != `{"id":"","text":"2;\n\"3"}` {
		t.Error(payload)
	}
}

// TestL3BadLinesGoToTheTask checks that a bad line does not stop the lines after it and carries its position.
func TestL3BadLinesGoToTheTask(t *testing.T) {
	path := write(t, "in.jsonl", "{\"id\":\"a\"}\nnonsense\n\""+strings.Repeat("x", 200)+"\"\n{\"id\":\"b\"}\n")
	source := open(t, path, file.SourceOptions{MaxRecord: 100})
	got := fetch(t, source, 10)
	if diff := cmp.Diff([]string{"a", path + ":11", path + ":20", "b"}, ids(got)); diff != "" {
		t.Fatal(diff)
	}
	for i, want := range []string{"", "line 2 (offset 11): not JSON at column 2", "line 3 (offset 20): longer than 100 bytes", ""} {
		err := file.Problem(got[i].Transaction)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), path+": "+want) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if bad := got[1].Transaction; string(bad.Payload()) != "nonsense" || bad.Metadata(file.MetaLine) != "2" {
		t.Errorf("%q in line %s", bad.Payload(), bad.Metadata(file.MetaLine))
	}
	if err := source.Nack(t.Context(), got[2], 0, nil); err != nil { // a second read finds the same bad line
		t.Fatal(err)
	}
	if again := fetch(t, source, 10); len(again) != 1 || file.Problem(again[0].Transaction) == nil || again[0].Count != 2 {
		t.Errorf("%+v", again)
	}
}

// TestL3ALineWithAnUnclosedQuoteIsUnchanged, also when it is delivered again, unless it is too long.
func TestL3ALineWithAnUnclosedQuoteIsUnchanged(t *testing.T) {
	for line, want := range map[string]string{`a,"1`: `a,"1`, `a,"` + strings.Repeat("x", 100): ""} {
		source := open(t, write(t, "in.csv", "id,text\n"+line+"\nb,2\n"), file.SourceOptions{MaxRecord: 100})
		for count := 1; count <= 2; count++ {
			d := fetch(t, source, 1)[0]
			if string(d.Transaction.Payload()) != want || file.Problem(d.Transaction) == nil || d.Count != count {
				t.Errorf("delivery %d: %q, %v", d.Count, d.Transaction.Payload(), file.Problem(d.Transaction))
			}
			if err := source.Nack(t.Context(), d, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestL3BadLinesGoToThePoisonSink(t *testing.T) {
	path := write(t, "in.csv", "id,text\na,1\nb\nc,3,4\nd,4\ne,\"5\r\n")
	var letters pipeline.MemorySink
	down := true
	poison := pipeline.SinkFunc(func(ctx context.Context, x *pipeline.Transaction) error {
		if down {
			down = false
			return errors.New("down")
		}
		return letters.Dispatch(ctx, x)
	})
	source := open(t, path, file.SourceOptions{Poison: poison})
	got, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 10})
	if len(got) != 1 || err == nil || !strings.Contains(err.Error(), "down") {
		t.Fatalf("%d, %v", len(got), err)
	}
	got = append(got, fetch(t, source, 10)...)
	if diff := cmp.Diff([]string{"a", "d"}, ids(got)); diff != "" {
		t.Error(diff)
	}
	list := letters.Transactions()
	if len(list) != 3 || list[0].Metadata(file.MetaLine) != "3" || !strings.Contains(list[0].Metadata(pipeline.MetaError), "columns: the header has 2, this row has 1") ||
		string(list[1].Payload()) != "c,3,4" || string(list[2].Payload()) != "e,\"5" {
		t.Errorf("%+v", list)
	}
	ack(t, source, got...)
	if _, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1}); !errors.Is(err, pipeline.ErrEnd) {
		t.Errorf("%v instead of the end", err)
	}
	source.Close()
	if left := fetch(t, open(t, path, file.SourceOptions{Poison: poison}), 10); len(left) > 0 {
		t.Errorf("%v was delivered again", ids(left))
	}
}

func TestHeadersAreChecked(t *testing.T) {
	for text, want := range map[string]string{"a,a\n1,2\n": "a duplicate", "a,\n1,2\n": "column 2", "a\"b,c\n": "header"} {
		source := open(t, write(t, "in.csv", text), file.SourceOptions{})
		for range 2 {
			_, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1})
			if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestL11ARestartNeitherLosesNorRepeats acknowledges lines in random order and restarts: the source delivers exactly the
// remaining lines, in the order of the file.
func TestL11ARestartNeitherLosesNorRepeats(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(r *rapid.T) {
		runs++
		name := rapid.SampledFrom([]string{"in.jsonl", "in.csv"}).Draw(r, "format")
		path := filepath.Join(dir, fmt.Sprintf("%d-%s", runs, name))
		n := rapid.IntRange(1, 30).Draw(r, "lines")
		var text strings.Builder
		if name == "in.csv" {
			text.WriteString("id,text\n")
		}
		left := []string{}
		for i := range n {
			text.WriteString(strings.Repeat("\n", rapid.IntRange(0, 1).Draw(r, "blank")))
			if name == "in.csv" {
				fmt.Fprintf(&text, "t%02d,\"x\ny\"\n", i)
			} else {
				fmt.Fprintf(&text, "{\"id\":\"t%02d\"}\n", i)
			}
			left = append(left, fmt.Sprintf("t%02d", i))
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			r.Fatal(err)
		}
		for len(left) > 0 {
			source, err := file.OpenSource(path, file.SourceOptions{})
			if err != nil {
				r.Fatal(err)
			}
			got := fetch(t, source, rapid.IntRange(1, 40).Draw(r, "max"))
			if diff := cmp.Diff(left[:min(len(got), len(left))], ids(got)); diff != "" || len(got) == 0 {
				r.Fatalf("%d came: %s", len(got), diff)
			}
			for _, d := range rapid.Permutation(got).Draw(r, "order") {
				if rapid.IntRange(0, 2).Draw(r, "ack") == 0 {
					continue
				}
				ack(t, source, d)
				left = slices.DeleteFunc(left, func(id string) bool { return id == d.Transaction.ID() })
			}
			if rapid.Bool().Draw(r, "line numbers") {
				more := fetch(t, source, 40)
				ack(t, source, more...)
				for _, id := range ids(more) {
					left = slices.DeleteFunc(left, func(l string) bool { return l == id })
				}
			}
			if err := source.Close(); err != nil {
				r.Fatal(err)
			}
		}
	})
}

func TestL11LineNumbersSurviveARestart(t *testing.T) {
	path := write(t, "in.jsonl", "1\n\n2\n3\nbad\n")
	source := open(t, path, file.SourceOptions{})
	got := fetch(t, source, 3)
	ack(t, source, got[0], got[2])
	source.Close()
	for _, d := range fetch(t, open(t, path, file.SourceOptions{}), 10) {
		if err := file.Problem(d.Transaction); err != nil && !strings.Contains(err.Error(), "line 5 (offset 7)") {
			t.Error(err)
		}
	}
}

// TestL11APartialAcknowledgementIsIgnored checks that a source ignores the partial entry that a crash left in the offsets.
func TestL11APartialAcknowledgementIsIgnored(t *testing.T) {
	path := write(t, "in.jsonl", "1\n2\n3\n4\n")
	source := open(t, path, file.SourceOptions{})
	got := fetch(t, source, 4)
	ack(t, source, got[0])
	ack(t, source, got[1], got[3])
	source.Close()
	raw, err := os.ReadFile(path + ".offset")
	if err != nil {
		t.Fatal(err)
	}
	log := strings.TrimRight(string(raw), "\n")
	last := strings.LastIndexByte(log, '\n') + 1
	for cut := last; cut < len(log); cut++ {
		torn := log[:cut] + strings.Repeat("\n", len(raw)-cut)
		rewrite(t, path+".offset", torn)
		source := open(t, path, file.SourceOptions{})
		if left := fetch(t, source, 4); len(left) != 3 {
			t.Fatalf("after %q: %v", log[last:cut], ids(left))
		}
		source.Close()
	}
	damaged := strings.Replace(log, "[[0", "x[0", 1)
	rewrite(t, path+".offset", damaged)
	if _, err := file.OpenSource(path, file.SourceOptions{}); err == nil || !strings.Contains(err.Error(), "line 2 is damaged") {
		t.Errorf("%v", err)
	}
}

func TestL11OffsetsOfAnotherInputAreRefused(t *testing.T) {
	path := write(t, "in.jsonl", "1\n2\n3\n")
	source := open(t, path, file.SourceOptions{})
	ack(t, source, fetch(t, source, 3)...)
	source.Close()
	for _, other := range []string{"4\n5\n6\n", "1\n2\n", ""} {
		rewrite(t, path, other)
		if _, err := file.OpenSource(path, file.SourceOptions{}); err == nil || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%q: %v", other, err)
		}
	}
	rewrite(t, path, "1\n2\n3\n4\n")
	if got := fetch(t, open(t, path, file.SourceOptions{}), 10); len(got) != 1 {
		t.Errorf("a file that has grown gives %v", ids(got))
	}
}

func TestL7TwoSourcesDoNotShareOffsets(t *testing.T) {
	path := write(t, "in.jsonl", "1\n")
	source := open(t, path, file.SourceOptions{})
	if _, err := file.OpenSource(path, file.SourceOptions{}); !errors.Is(err, file.ErrLocked) {
		t.Errorf("%v", err)
	}
	other := open(t, path, file.SourceOptions{Offsets: path + ".other"})
	forgetful := open(t, path, file.SourceOptions{Forget: true})
	for _, s := range []*file.Source{source, other, forgetful} {
		if got := fetch(t, s, 1); len(got) != 1 {
			t.Errorf("%d", len(got))
		}
	}
	source.Close()
	if got := fetch(t, open(t, path, file.SourceOptions{}), 1); len(got) != 1 {
		t.Errorf("%d", len(got))
	}
}

func TestL11StaleAndForeignDeliveriesAreRejected(t *testing.T) {
	path := write(t, "in.jsonl", "1\n2\n")
	source := open(t, path, file.SourceOptions{})
	first := fetch(t, source, 1)[0]
	if err := source.Nack(t.Context(), first, 0, nil); err != nil {
		t.Fatal(err)
	}
	again := fetch(t, source, 1)[0]
	if errs := source.Ack(t.Context(), []pipeline.Delivery{first, again}); errs == nil || errs[0] == nil || errs[1] != nil {
		t.Errorf("%v", errs)
	}
	if err := source.Nack(t.Context(), again, 0, nil); err == nil {
		t.Error("a nack after the ack was accepted")
	}
	foreign := fetch(t, open(t, path, file.SourceOptions{Forget: true}), 1)[0]
	if errs := source.Ack(t.Context(), []pipeline.Delivery{foreign}); errs == nil {
		t.Error("a delivery of another source was accepted")
	}
}

// TestL7PendingTransactionsAreBounded checks that a source with too many failures returns an error, instead of growing or
// ending silently.
func TestL7PendingTransactionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := open(t, write(t, "in.jsonl", strings.Repeat("1\n", 10)), file.SourceOptions{MaxPending: 4})
		got := fetch(t, source, 10)
		if len(got) != 4 {
			t.Fatalf("%d", len(got))
		}
		if err := source.Nack(t.Context(), got[0], time.Hour, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: time.Minute}); !errors.Is(err, file.ErrPending) {
			t.Fatalf("%v", err)
		}
		go func() {
			time.Sleep(time.Second)
			source.Ack(t.Context(), got[1:2])
		}()
		start := time.Now()
		if more, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: time.Minute}); len(more) != 1 || time.Since(start) != time.Second {
			t.Errorf("%d after %v, %v", len(more), time.Since(start), err)
		}
	})
}

func TestL6AFileEndsWhenAllIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := open(t, write(t, "in.jsonl", "1\n2\n"), file.SourceOptions{})
		got := fetch(t, source, 10)
		if more, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: time.Minute}); len(more) > 0 || err != nil {
			t.Errorf("%d, %v", len(more), err)
		}
		if err := source.Nack(t.Context(), got[0], 10*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		ack(t, source, got[1])
		start := time.Now()
		again, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: time.Minute})
		if len(again) != 1 || time.Since(start) != 10*time.Second {
			t.Fatalf("%d after %v, %v", len(again), time.Since(start), err)
		}
		ack(t, source, again...)
		if _, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 1, Wait: time.Minute}); !errors.Is(err, pipeline.ErrEnd) {
			t.Errorf("%v", err)
		}
	})
}

func TestL6AFollowedFileMayGrowAndMustNotShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := write(t, "in.jsonl", "1\n2")
		source := open(t, path, file.SourceOptions{Follow: true})
		ack(t, source, fetch(t, source, 10)...)
		if got := fetch(t, source, 10); len(got) > 0 {
			t.Errorf("a partial line was delivered: %q", got[0].Transaction.Payload())
		}
		go func() {
			time.Sleep(time.Second)
			grow(t, path, "3\n")
		}()
		got, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 10, Wait: time.Minute})
		if err != nil || len(got) != 1 || string(got[0].Transaction.Payload()) != "23" {
			t.Fatalf("%v, %v", got, err)
		}
		if err := source.Nack(t.Context(), got[0], time.Second, nil); err != nil {
			t.Fatal(err)
		}
		grow(t, path, "45")
		if got := fetch(t, source, 10); len(got) > 0 {
			t.Errorf("a partial line was delivered: %q", got[0].Transaction.Payload())
		}
		for _, more := range []string{"", "6\n7\n8\n9\n"} {
			if more == "" && os.Truncate(path, 6) != nil { // within the line that has begun
				t.Fatal("the file cannot be truncated")
			}
			grow(t, path, more)
			got, err := source.Fetch(t.Context(), pipeline.FetchRequest{Max: 10})
			time.Sleep(time.Second) // until the second record is due again
			if len(got) > 0 || err == nil || !strings.Contains(err.Error(), "shrunk") {
				t.Errorf("after %q was added: %d records, %v", more, len(got), err)
			}
		}
	})
}

// TestL11ConcurrentOutcomes calls Fetch, Ack and Nack from different goroutines.
func TestL11ConcurrentOutcomes(t *testing.T) {
	path := write(t, "in.jsonl", "")
	writeLines(t, path, 3000)
	var mu sync.Mutex
	seen, poison := map[string]int{}, 0
	source := open(t, path, file.SourceOptions{})
	var p policy.Consumer
	p.Loop.Streaming, p.Loop.Concurrency.Value, p.Loop.Batch.Size, p.Loop.Batch.Interval = true, 16, 50, time.Second
	p.Steps.Process.Retry.InitialBackoff = time.Millisecond
	task := pipeline.Handle(func(_ context.Context, x *pipeline.Transaction) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[x.ID()]++; seen[x.ID()]%3 != 0 && strings.HasSuffix(x.ID(), "7") {
			poison++
			return errors.New("down")
		}
		return nil
	})
	summary, err := pipeline.NewConsumer(source, task, p, pipeline.WithLogger(quiet)).Run(t.Context())
	if err != nil || summary.Success != 3000 || summary.Unsettled > 0 || len(seen) != 3000 || poison != 600 {
		t.Errorf("%+v, %v; %d IDs, %d failures", summary, err, len(seen), poison)
	}
	source.Close()
	if left := fetch(t, open(t, path, file.SourceOptions{}), 1); len(left) > 0 {
		t.Errorf("%v was delivered again", ids(left))
	}
}

func TestOpenRejectsUnreadableInput(t *testing.T) {
	path := write(t, "in.xlsx", "")
	for want, o := range map[string]file.SourceOptions{"does not name a known format": {}, `"xlsx" is not known`: {Format: "xlsx"}, "envelopes": {Format: file.CSV, Envelope: true}} {
		if _, err := file.OpenSource(path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := file.OpenSource(path+".jsonl", file.SourceOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if left, err := filepath.Glob(path + "*.offset"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestL11DeadLettersKeepTheirMetadata checks that dead letters are read back with their metadata.
func TestL11DeadLettersKeepTheirMetadata(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	sink := create(t, path, file.SinkOptions{Envelope: true})
	var p policy.Consumer
	p.Steps.Process.Retry = policy.Retry{MaxAttempts: 3, InitialBackoff: time.Millisecond}
	put := pipeline.NewTransaction("a", []byte("{\"html\": \"<b>\"}"), pipeline.WithMetadata(map[string]string{"k": "v"}), pipeline.WithCorrelation("c"), pipeline.WithParent("p"))
	failing := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return errors.New("down") })
	if s, err := pipeline.NewConsumer(pipeline.NewMemorySource(put), failing, p, pipeline.WithDeadLetter(sink)).Run(t.Context()); err != nil || s.Exception != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	closeAll(t, sink)
	got := fetch(t, open(t, path, file.SourceOptions{Envelope: true}), 10)
	if len(got) != 1 {
		t.Fatalf("%d", len(got))
	}
	back := got[0].Transaction
	have := []any{back.ID(), string(back.Payload()), back.Correlation(), back.Parent(), back.Attempts()}
	if diff := cmp.Diff([]any{"a", `{"html": "<b>"}`, "c", "p", 3}, have); diff != "" {
		t.Error(diff)
	}
	meta := slices.Sorted(maps.Keys(back.AllMetadata()))
	if diff := cmp.Diff([]string{"k", pipeline.MetaCategory, pipeline.MetaError, pipeline.MetaConsumer, pipeline.MetaStep}, meta); diff != "" {
		t.Error(diff)
	}
}

// TestL11AnEnvelopeKeepsTheBytesOfThePayload: signatures and fingerprints cover them.
func TestL11AnEnvelopeKeepsTheBytesOfThePayload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	sink := create(t, path, file.SinkOptions{Envelope: true})
	payloads := []string{`{"a": 1, "b": "\u003c<"}`, "{\n  \"a\": 1\n}", " 1 ", `"x"`, `null`, "\xff\x00", "[1,\r2]", ""}
	dispatch(t, sink, payloads...)
	closeAll(t, sink)
	var back []string
	for _, d := range fetch(t, open(t, path, file.SourceOptions{Envelope: true}), 10) {
		back = append(back, string(d.Transaction.Payload()))
	}
	if diff := cmp.Diff(payloads, back); diff != "" {
		t.Error(diff)
	}
}
