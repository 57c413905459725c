package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/internal/files"
)

// fileNames makes the names of a rotated log's files.
type fileNames struct {
	path      string // of the current segment
	stem, ext string
}

func namesOf(path string) fileNames {
	ext := filepath.Ext(path)
	return fileNames{path: path, stem: strings.TrimSuffix(path, ext), ext: ext}
}

func (n fileNames) lock() string             { return n.stem + ".lock" }
func (n fileNames) heads() string            { return n.stem + ".heads.json" }
func (n fileNames) rotated(no uint64) string { return fmt.Sprintf("%s-%06d%s", n.stem, no, n.ext) }

// ended lists the numbers of the completed segments that still exist.
func (n fileNames) ended() ([]uint64, error) {
	files, err := os.ReadDir(filepath.Dir(n.path))
	if err != nil {
		return nil, err
	}
	var list []uint64
	prefix := filepath.Base(n.stem) + "-"
	for _, f := range files {
		digits, ok := strings.CutPrefix(f.Name(), prefix)
		if !ok || !strings.HasSuffix(digits, n.ext) {
			continue
		}
		digits = strings.TrimSuffix(digits, n.ext)
		if no, err := strconv.ParseUint(digits, 10, 64); err == nil && no > 0 && len(digits) >= 6 {
			list = append(list, no)
		}
	}
	slices.Sort(list)
	return list, nil
}

// savedHeads is the content of the heads file: the heads of all chains in the segments before Segment, and
// perhaps of Segment itself. Ended says that the file of Segment is renamed next, to the name with its number.
type savedHeads struct {
	Segment uint64 `json:"segment"`
	Ended   bool   `json:"ended,omitempty"`
	Heads   []Head `json:"heads"`
}

// maxState is the maximum size, in bytes, of the files that hold the heads of all chains.
const maxState = 256 << 20

func (n fileNames) saved() (s savedHeads, err error) {
	raw, err := files.Read(n.heads(), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return savedHeads{Segment: 1}, nil
	}
	if err != nil {
		return s, err
	}
	if err = json.Unmarshal(raw, &s); err == nil && s.Segment == 0 {
		err = errors.New("segment is missing")
	}
	if err != nil {
		return s, fmt.Errorf("%s: damaged; delete it and Tenet rebuilds it from the log's files: %w", n.heads(), err)
	}
	return s, nil
}

func (n fileNames) saveHeads(s savedHeads) error {
	raw, err := json.Marshal(s)
	if err != nil { // not reached in tests: strings and numbers always have a JSON form
		return err
	}
	return files.Write(n.heads(), raw)
}

// current returns the number of the segment that is being written.
func (n fileNames) current() (uint64, error) {
	s, err := n.saved()
	if err != nil {
		return 0, err
	}
	list, err := n.ended()
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return s.Segment, nil
	}
	return max(s.Segment, list[len(list)-1]+1), nil
}

// scan collects the heads of all segments, and finds the position after the last line. It does not read segments that the
// saved heads cover.
func (n fileNames) scan() (heads map[string]Head, tail position, err error) {
	s, err := n.saved()
	if err != nil {
		return nil, tail, err
	}
	heads = map[string]Head{}
	learn(heads, s.Heads...)
	from := ""
	if len(s.Heads) > 0 {
		from = position{s.Segment, 0}.String()
	}
	err = (&FileSource{names: n}).Read(context.Background(), from, func(cursor string, line []byte) (err error) {
		learn(heads, headOf(line))
		tail, err = parsePosition(cursor)
		return err
	})
	if err != nil || tail.segment > 0 {
		return heads, tail, err
	}
	list, err := n.ended()
	if err != nil || len(list) == 0 {
		return heads, tail, err
	}
	last := list[len(list)-1]
	info, err := os.Stat(n.rotated(last))
	if err != nil { // not reached in tests: the file is deleted between listing and reading
		return heads, tail, err
	}
	return heads, position{last, info.Size()}, nil
}

// headOf returns the head that an event's line describes, or the zero Head if the line is not an event.
func headOf(line []byte) (h Head) {
	r := lineReader{line: line}
	r.members(func(name []byte) {
		switch string(name) {
		case "chain_id":
			h.ChainID = string(r.text())
		case "hash":
			h.Hash = string(r.text())
		case "seq":
			h.Seq = r.unsigned()
		default:
			r.value()
		}
	})
	if r.bad {
		return Head{}
	}
	return h
}

func sortedHeads(m map[string]Head) []Head {
	return slices.SortedFunc(maps.Values(m), func(a, b Head) int { return cmp.Compare(a.ChainID, b.ChainID) })
}

// position is a place in the segments of a file.
type position struct {
	segment uint64
	offset  int64
}

func (p position) String() string { return string(p.append(nil)) }

func (p position) append(b []byte) []byte {
	b = strconv.AppendUint(b, p.segment, 10)
	return strconv.AppendInt(append(b, ':'), p.offset, 10)
}

func parsePosition(cursor string) (p position, err error) {
	segment, offset, _ := strings.Cut(cursor, ":")
	p.segment, err = strconv.ParseUint(segment, 10, 64)
	if err == nil {
		p.offset, err = strconv.ParseInt(offset, 10, 64)
	}
	if err != nil || p.offset < 0 {
		return p, fmt.Errorf("audit: cursor %q: want SEGMENT:OFFSET", cursor)
	}
	return p, nil
}

func (p position) before(q position) bool {
	return p.segment < q.segment || p.segment == q.segment && p.offset < q.offset
}
