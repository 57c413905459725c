package file

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tenetdev/tenet/internal/files"
)

// span is an acknowledged stretch of a file.
type span struct {
	from, end int64
	lines     int // line breaks in it
}

// MarshalJSON writes [from, end, lines].
func (s span) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "[%d,%d,%d]", s.from, s.end, s.lines), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *span) UnmarshalJSON(raw []byte) error {
	var v [3]int64
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	*s = span{v[0], v[1], int(v[2])}
	if s.from < 0 || s.end < s.from || s.lines < 0 {
		return fmt.Errorf("a stretch from %d to %d with %d lines", s.from, s.end, s.lines)
	}
	return nil
}

// spans are sorted and do not touch each other.
type spans []span

// add inserts a span and joins it with its neighbours.
func (list *spans) add(s span) {
	l := *list
	i, _ := slices.BinarySearchFunc(l, s.from, func(a span, from int64) int { return cmp.Compare(a.from, from) })
	before, after := i > 0 && l[i-1].end == s.from, i < len(l) && l[i].from == s.end
	switch {
	case before && after:
		l[i-1].end, l[i-1].lines = l[i].end, l[i-1].lines+s.lines+l[i].lines
		*list = slices.Delete(l, i, i+1)
	case before:
		l[i-1].end, l[i-1].lines = s.end, l[i-1].lines+s.lines
	case after:
		l[i] = span{s.from, l[i].end, s.lines + l[i].lines}
	default:
		*list = slices.Insert(l, i, s)
	}
}

// join sorts spans and joins those that touch.
func join(list []span) spans {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	joined := list[:0]
	for _, s := range list {
		if n := len(joined); n > 0 && joined[n-1].end == s.from {
			joined[n-1].end, joined[n-1].lines = s.end, joined[n-1].lines+s.lines
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// offsets store the acknowledgements. The file is a log: a head with all earlier acknowledgements and a line for each group
// since. It is filled with empty lines in advance: a flush that does not change the file's size costs a tenth and does not
// wait for other writes to the same disk. A full log is rewritten.
type offsets struct {
	path   string
	data   *os.File
	layout string // see head

	mu    sync.Mutex
	file  *os.File
	done  spans
	size  int64 // bytes of the lines
	room  int64 // bytes reserved for lines
	known int64 // bytes of the input whose hash the head has
	stale bool  // the file may lack a part of done, or end with half a line
}

// head is the first line of the file.
type head struct {
	Version int    `json:"tenet_offsets"`
	Of      string `json:"of"`
	// Layout is the format and what separates columns, on which the ends of records depend; "" if an earlier version wrote the file.
	Layout string `json:"layout,omitempty"`
	// Begins is the hash of the first Bytes bytes of the input, which detects another input.
	Begins string `json:"begins"`
	Bytes  int64  `json:"bytes"`
	Done   spans  `json:"done"`
}

const (
	offsetsVersion = 1
	headBytes      = 4096
	roomForOffsets = 1 << 20   // bytes
	maxOffsets     = 256 << 20 // bytes
)

// openOffsets reads the acknowledgements of data, whose layout must be the same, and locks out other sources.
func openOffsets(path string, data *os.File, layout string) (*offsets, error) {
	o := &offsets{path: path, data: data, layout: layout}
	file, err := openLocked(path)
	if err != nil {
		return nil, fmt.Errorf("file: offsets: %w", err)
	}
	o.file = file
	if err = o.load(); err == nil {
		err = o.rewrite()
	}
	if err != nil {
		o.file.Close()
		return nil, fmt.Errorf("file: offsets: %s: %w", path, err)
	}
	return o, nil
}

func (o *offsets) load() error {
	raw, err := files.ReadAll(o.file, maxOffsets)
	if err != nil || len(raw) == 0 {
		return err
	}
	lines := bytes.Split(bytes.TrimRight(raw, "\n"), []byte{'\n'})
	var h head
	if err := json.Unmarshal(lines[0], &h); err != nil || h.Version != offsetsVersion {
		return errors.New("not an offsets file of this version; move it away to start from the beginning")
	}
	list := []span(h.Done)
	for i, line := range lines[1:] {
		var more []span
		err := json.Unmarshal(line, &more)
		if err != nil && i < len(lines)-2 && len(line) > 0 {
			return fmt.Errorf("line %d is damaged (%w); move the file away to start from the beginning", i+2, err)
		}
		if err == nil { // otherwise a crash cut the last one short
			list = append(list, more...)
		}
	}
	o.done = join(list)
	if len(o.done) > 0 && h.Layout != "" && h.Layout != o.layout {
		return errors.New("the offsets are those of another format or comma; move the file away to start from the beginning")
	}
	begins, err := hash(o.data, h.Bytes)
	if err != nil {
		return err
	}
	info, err := o.data.Stat()
	if err != nil {
		return err
	}
	if n := len(o.done); begins != h.Begins || n > 0 && o.done[n-1].end > info.Size() {
		return errors.New("the offsets belong to another input; move the file away to start from the beginning")
	}
	return nil
}

// hash returns the hash of the first n bytes of a file, or of all its bytes if it is shorter.
func hash(file *os.File, n int64) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(file, 0, n)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// add stores acknowledgements. After an error, the next call stores them too.
func (o *offsets) add(list []span) error {
	if o == nil || len(list) == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	list = join(list)
	for _, s := range list {
		o.done.add(s)
	}
	if err := o.write(list); err != nil {
		o.stale = true
		return fmt.Errorf("file: offsets: %w", err)
	}
	return nil
}

func (o *offsets) write(list spans) error {
	line, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if o.stale || o.size+int64(len(line)) >= o.room || o.known < headBytes && o.grown() { // an empty line follows the last one
		return o.rewrite()
	}
	if _, err := o.file.WriteAt(line, o.size); err != nil {
		return err
	}
	o.size += int64(len(line)) + 1
	return files.SyncData(o.file)
}

// grown reports whether the head should have the hash of more of the input. That of an empty one fits every file.
func (o *offsets) grown() bool {
	info, err := o.data.Stat()
	return err != nil || info.Size() > o.known // an error comes again from rewrite
}

// rewrite replaces the file with one that has everything in its head.
func (o *offsets) rewrite() error {
	info, err := o.data.Stat()
	if err != nil {
		return err
	}
	h := head{Version: offsetsVersion, Of: filepath.Base(o.data.Name()), Layout: o.layout, Bytes: min(info.Size(), headBytes), Done: o.done}
	if h.Begins, err = hash(o.data, h.Bytes); err != nil {
		return err
	}
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	size := int64(len(line)) + 1
	line = append(line, bytes.Repeat([]byte{'\n'}, 1+roomForOffsets)...)
	fresh, err := files.Swap(o.path, func(file *os.File) error {
		_, err := file.Write(line)
		return err
	})
	if err != nil {
		return err
	}
	o.file.Close()
	o.file, o.size, o.room, o.known, o.stale = fresh, size, int64(len(line)), h.Bytes, false
	return nil
}

func (o *offsets) close() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if o.stale {
		err = o.rewrite()
	}
	return errors.Join(err, o.file.Close())
}
