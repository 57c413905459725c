package jobline

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenetdev/tenet/job"
)

const (
	// batchSize is the number of jobs in a batch.
	batchSize = 1000
	// batchBytes is the maximum size of a batch in memory.
	batchBytes = 16 << 20
	// maxLine is the maximum size of a line: the largest payload, escaped, and the other fields.
	maxLine = 8 << 20
	// DefaultWindow is how long an imported job keeps its unique key.
	DefaultWindow = 30 * 24 * time.Hour
)

// Options of [Import]. The zero value is usable.
type Options struct {
	// Window is how long keys keep jobs from being enqueued again. Default 30 days.
	Window time.Duration
	// DryRun parses everything and enqueues nothing; Imported then counts good lines.
	DryRun bool
	// Progress is called after each batch with the bytes and lines done. May be nil.
	Progress func(bytes int64, lines int)
	// Enqueued is called for each job that was enqueued or existed. May be nil.
	Enqueued func(job.Request)
}

// Result counts the lines, without blank ones.
type Result struct {
	Imported int        `json:"imported"`
	Existing int        `json:"existing"`
	Rejected []Rejected `json:"rejected"`
}

// Rejected is a line that is not a valid job.
type Rejected struct {
	Line  int    `json:"line"` // from 1
	Error string `json:"error"`
}

// Import enqueues every valid line of r. If the store or ctx fails, it returns the result so far and the error. The import is
// safe to repeat.
func Import(ctx context.Context, client *job.Client, r io.Reader, o Options) (Result, error) {
	o.Window = cmp.Or(max(o.Window, 0), DefaultWindow)
	i := importer{client: client, options: o, seen: map[[16]byte]int{}, flows: map[string]*flowLines{}, result: Result{Rejected: []Rejected{}}}
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		text, size, err := readLine(lines)
		i.bytes += int64(size)
		last := errors.Is(err, io.EOF)
		if err != nil && !last {
			return i.result, fmt.Errorf("line %d: %w", i.number+1, err)
		}
		if size > 0 {
			i.number++
			i.line(text, size)
		}
		if len(i.batch) >= batchSize || i.held >= batchBytes || last {
			if failed := i.flush(ctx); failed != nil {
				return i.result, failed
			}
		}
		if last {
			return i.result, i.enqueueFlows(ctx)
		}
	}
}

// importer is a running import.
type importer struct {
	client   *job.Client
	options  Options
	seen     map[[16]byte]int // lines without a unique key, by hash of their content
	batch    []job.Request
	flows    map[string]*flowLines
	ofFlows  int // jobs in flows
	held     int // bytes in the batch
	number   int // of the last line
	unplaced int // the first rejected line that may belong to any flow; 0 for none
	bytes    int64
	result   Result
}

func (i *importer) line(text []byte, size int) {
	if text == nil {
		i.reject(fmt.Errorf("%d bytes, above the limit of %d", size, maxLine))
		i.unplaced = cmp.Or(i.unplaced, i.number)
		return
	}
	if i.number == 1 {
		text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte order mark that some editors put before UTF-8
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return
	}
	parsed, err := Parse(text)
	if parsed.Flow != "" {
		i.flowLine(parsed, err)
		return
	}
	if err != nil {
		i.reject(err)
		if ofAnyFlow(text) {
			i.unplaced = cmp.Or(i.unplaced, i.number)
		}
		return
	}
	r := parsed.Request
	if r.UniqueKey == "" {
		r.UniqueKey = i.key(text)
	}
	r.UniqueFor = i.options.Window
	i.batch = append(i.batch, r)
	i.held += size
}

func (i *importer) reject(err error) {
	i.result.Rejected = append(i.result.Rejected, Rejected{Line: i.number, Error: err.Error()})
}

// key makes the unique key of a line that has none.
func (i *importer) key(text []byte) string {
	sum := sha256.Sum256(text)
	content := [16]byte(sum[:16])
	i.seen[content]++
	return fmt.Sprintf("import/%s/%d", hex.EncodeToString(content[:]), i.seen[content])
}

// flush enqueues the batch.
func (i *importer) flush(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if i.options.DryRun {
		i.result.Imported += len(i.batch)
	} else if len(i.batch) > 0 {
		receipts, err := i.client.EnqueueMany(ctx, i.batch)
		if err != nil {
			return fmt.Errorf("lines up to %d: %w", i.number, err)
		}
		for n, r := range receipts {
			if i.options.Enqueued != nil {
				i.options.Enqueued(i.batch[n])
			}
			if r.Existed {
				i.result.Existing++
			} else {
				i.result.Imported++
			}
		}
	}
	i.batch, i.held = nil, 0
	if i.options.Progress != nil {
		i.options.Progress(i.bytes, i.number)
	}
	return nil
}

// readLine returns the next line and its size. It skips the text of a line above the limit and returns nil for it.
func readLine(r *bufio.Reader) (text []byte, size int, err error) {
	text = []byte{}
	for {
		part, err := r.ReadSlice('\n')
		size += len(part)
		switch {
		case size > maxLine:
			text = nil
		default:
			text = append(text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, size, err
		}
	}
}
