package jobline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

func importInto(t *testing.T, store job.Store, text string, o Options) Result {
	t.Helper()
	r, err := Import(t.Context(), job.NewClient(store), strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheSameFileTwiceEnqueuesNothingTwice(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	var file strings.Builder
	const n = 2*batchSize + 17
	for i := range n {
		fmt.Fprintf(&file, `{"type":"a","payload":%d}`+"\n", i%100) // equal lines are different jobs
	}
	for i := range 50 {
		fmt.Fprintf(&file, `{"type":"a","unique_key":"k%d"}`+"\n", i)
	}
	if r := importInto(t, store, file.String(), Options{}); r.Imported != n+50 || r.Existing != 0 {
		t.Errorf("first: %+v", r)
	}
	if r := importInto(t, store, file.String(), Options{}); r.Imported != 0 || r.Existing != n+50 {
		t.Errorf("again: %+v", r)
	}
	// The same holds after the jobs have ended.
	if _, err := store.Change(t.Context(), job.ActionCancel, job.Filter{}, 10*n); err != nil {
		t.Fatal(err)
	}
	if r := importInto(t, store, file.String(), Options{}); r.Imported != 0 || r.Existing != n+50 {
		t.Errorf("after the jobs ended: %+v", r)
	}
}

func TestAnInterruptedImportContinues(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	file := strings.Repeat("{\"type\":\"a\"}\n", 3*batchSize)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	r, err := Import(ctx, job.NewClient(store), strings.NewReader(file), Options{Progress: func(int64, int) { cancel(stop) }})
	if !errors.Is(err, stop) || r.Imported != batchSize {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := importInto(t, store, file, Options{}); r.Imported != 2*batchSize || r.Existing != batchSize {
		t.Errorf("%+v", r)
	}
}

func TestBadLinesAreReportedByNumberAndTheRestIsImported(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	file := strings.Join([]string{
		`{"type":"a","run_at":"2030-01-01T00:00:00Z","max_attempts":3,"priority":2,"timeout":"1m","queue":"q"}`,
		``,
		`{"type":"a"`,
		`{"type":"a","color":1}`,
		`{"type":""}`,
		`{"type":"a","priority":10}`,
		`{"type":"a","priority":"high"}`,
		`{"type":"a","timeout":"soon"}`,
		`{"type":"a","run_at":"tomorrow"}`,
		`{"type":"a"} {"type":"b"}`,
		`{"type":"a","payload":"` + strings.Repeat("x", job.DefaultMaxPayload) + `"}`,
		`{"type":"a","payload":"` + strings.Repeat("x", maxLine) + `"}`,
		`[]`,
		`{"type":"a","max_attempts":1.5}`,
		`type: a`,
		`{"type":"a","run_at":1767225600}`,
		`{"type":"last"}`, // no final line feed
	}, "\n")
	r := importInto(t, store, file, Options{})
	want := []Rejected{
		{3, "incomplete JSON object"},
		{4, `unknown field "color"; the fields are ` + strings.Join(fields, ", ")},
		{5, "type: missing; name the handler"},
		{6, "priority: 10 is not within 0 (highest) to 9"},
		{7, "priority: must be a whole number, not a JSON string"},
		{8, `timeout: "soon" is not a duration above 0 such as "30s", nor a number of seconds`},
		{9, `run_at: "tomorrow" is not a time such as "2026-03-02T08:00:00Z"`},
		{10, "more than one JSON object on the line"},
		{11, "payload: 1048578 bytes, above the limit of 1048576"},
		{12, fmt.Sprintf("%d bytes, above the limit of %d", maxLine+26, maxLine)},
		{13, "expected an object, not a JSON array"},
		{14, "max_attempts: must be a whole number, not a JSON number 1.5"},
		{15, "not valid JSON: invalid character 'y' in literal true (expecting 'r')"},
		{16, `run_at: must be a time such as "2026-03-02T08:00:00Z"`},
	}
	if diff := cmp.Diff(want, r.Rejected); diff != "" || r.Imported != 2 {
		t.Errorf("%d imported; rejected (-want +got):\n%s", r.Imported, diff)
	}
	list, err := store.List(t.Context(), job.Filter{Queue: "q"}, "", 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs: %v", len(list), err)
	}
	got := list[0]
	if got.Type != "a" || got.MaxAttempts != 3 || got.Priority != 2 || got.Timeout != time.Minute || got.RunAt.Year() != 2030 || string(got.Payload) != "null" {
		t.Errorf("stored %+v", got)
	}
}

func TestLinesAreUTF8WithOrWithoutAMark(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	r := importInto(t, store, "\ufeff{\"type\":\"a\"}\n{\"type\":\"b\",\"meta\":{\"city\":\"Z\xfcrich\"}}\n", Options{})
	if r.Imported != 1 || len(r.Rejected) != 1 || r.Rejected[0] != (Rejected{2, "the text is not UTF-8"}) {
		t.Errorf("%+v", r)
	}
}

func TestTimeoutsAreTextOrSeconds(t *testing.T) {
	for timeout, want := range map[string]time.Duration{`"1m30s"`: 90 * time.Second, `2.5`: 2500 * time.Millisecond, `""`: 0, `null`: 0} {
		r, err := Parse([]byte(`{"type":"a","timeout":` + timeout + `}`))
		if err != nil || r.Timeout != want {
			t.Errorf("%s: %v, %v", timeout, r.Timeout, err)
		}
	}
	for _, timeout := range []string{`0`, `-1`, `1e300`, `true`, `"-1s"`} {
		if _, err := Parse([]byte(`{"type":"a","timeout":` + timeout + `}`)); err == nil || !strings.HasPrefix(err.Error(), "timeout: ") {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}

func TestADryRunEnqueuesNothing(t *testing.T) {
	var done int64
	file := []byte("{\"type\":\"a\"}\n{}\n")
	r, err := Import(t.Context(), nil, bytes.NewReader(file), Options{DryRun: true, Progress: func(b int64, _ int) { done = b }})
	if err != nil || r.Imported != 1 || len(r.Rejected) != 1 || done != int64(len(file)) {
		t.Errorf("%+v, %v, %d bytes", r, err, done)
	}
}

func TestJ20ARejectedJobOutsideFlowsLeavesFlowsAlone(t *testing.T) {
	store := memory.Open().Jobs()
	defer store.Close()
	lines := `{"type":"a","flow":"f","node":"x"}` + "\n" + `{"type":"a","color":1}` + "\n" + `{"type":"a","flow":"","needs":null,"priority":"high"}`
	if r := importInto(t, store, lines, Options{}); r.Imported != 1 || len(r.Rejected) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestJ20AFlowIsNotStoredWithoutItsRejectedLines(t *testing.T) {
	for name, bad := range map[string]string{
		"unknown field":    `{"type":"a","flow":"f","node":"y","color":1}`,
		"wrong type":       `{"type":"a","flow":"f","node":"y","priority":"high"}`,
		"wrong time first": `{"type":"a","run_at":"tomorrow","flow":"f","node":"y"}`,
		"not JSON":         `{"type":"a","flow":"f","node":"y"`,
		"two objects":      `{"type":"a","flow":"f","node":"y"} {}`,
		"no flow":          `{"type":"a","node":"y"}`,
		"misspelled flow":  `{"type":"a","flwo":"f","node":"y"}`,
		"flow is a number": `{"type":"a","flow":7}`,
		"flow is null":     `{"type":"a","flow":null,"needs":["x"],"priority":"high"}`,
		"not an object":    `[{"type":"a","flow":"f","node":"y"}]`,
		"too long":         `{"type":"a","flow":"f","node":"` + strings.Repeat("y", maxLine) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.Open().Jobs()
			defer store.Close()
			file := func(second string) string {
				return `{"type":"a","flow":"f","node":"x"}` + "\n" + second + "\n" + `{"type":"b"}`
			}
			if r := importInto(t, store, file(bad), Options{}); r.Imported != 1 || len(r.Rejected) != 2 {
				t.Errorf("%d imported, rejected %v; want the job outside flows only", r.Imported, r.Rejected)
			}
			if r := importInto(t, store, file(`{"type":"a","flow":"f","node":"y"}`), Options{}); r.Imported != 2 || r.Existing != 1 {
				t.Errorf("after the line was corrected: %+v", r)
			}
		})
	}
}
