package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tenetdev/tenet/internal/files"
)

// FileSource reads the files of a [FileSink], in order, even while they are being written. It takes no lock and
// changes nothing. Cursors are SEGMENT:OFFSET.
type FileSource struct{ names fileNames }

// NewFileSource reads the log at path, including its rotated files. The path of a rotated file reads that file alone.
func NewFileSource(path string) *FileSource { return &FileSource{names: namesOf(path)} }

// Path returns the current name of a segment's file.
func (s *FileSource) Path(segment uint64) string {
	if rotated := s.names.rotated(segment); fileExists(rotated) {
		return rotated
	}
	return s.names.path
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Read implements [Source]. If there is no file, the error wraps fs.ErrNotExist. Read does not return a line that is still
// being written. If the cursor's file is gone, Read continues with the next one.
func (s *FileSource) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	var at position
	if after != "" {
		var err error
		if at, err = parsePosition(after); err != nil {
			return err
		}
	}
	for {
		segment, err := s.open(at.segment)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if segment.File == nil {
			return nil // the segment after the last one, which nothing was written to yet
		}
		if segment.number != at.segment {
			at = position{segment: segment.number}
		}
		at.offset, err = segment.readLines(ctx, at, f)
		segment.Close()
		if err != nil {
			return err
		}
		if !segment.last {
			at = position{segment: at.segment + 1}
			continue
		}
		current, err := s.names.current()
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if current == at.segment {
			return nil
		} // it was rotated meanwhile: read what was added before that, and continue
	}
}

// Tail implements [Tailer]. Between the end of a file and the first line of the next it returns the beginning of the next.
func (s *FileSource) Tail(context.Context) (cursor string, err error) {
	n, err := s.names.current()
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	segment, err := s.open(n)
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	if segment.File == nil {
		return position{segment: segment.number}.String(), nil
	}
	defer segment.Close()
	end, err := files.EndOfLines(segment.File)
	return position{segment.number, end}.String(), err
}

// segmentFile is an open segment.
type segmentFile struct {
	*os.File // nil if nothing has been written to the segment yet
	number   uint64
	last     bool // the segment is still being written
}

// open opens the first segment that is numbered from or higher.
func (s *FileSource) open(from uint64) (segmentFile, error) {
	for {
		current, err := s.names.current() // before the list, so that a rotation in between is noticed below
		if err != nil {
			return segmentFile{}, err
		}
		list, err := s.names.ended()
		if err != nil { // not reached in tests: current has listed the same folder just before
			return segmentFile{}, err
		}
		if from > 0 { // a listing may miss a file that is being renamed
			if file, err := files.Open(s.names.rotated(from)); !errors.Is(err, fs.ErrNotExist) {
				return segmentFile{File: file, number: from}, err
			}
		}
		i := slices.IndexFunc(list, func(n uint64) bool { return n >= from })
		if i >= 0 {
			file, err := files.Open(s.names.rotated(list[i]))
			if errors.Is(err, fs.ErrNotExist) { // not reached in tests: the file is deleted between listing and opening
				from = list[i] + 1
				continue
			}
			return segmentFile{File: file, number: list[i]}, err
		}
		if from > current {
			return segmentFile{}, fmt.Errorf("%s: no segment %d", s.names.path, from)
		}
		file, err := files.Open(s.names.path)
		now, failed := s.names.current()
		if failed == nil && now == current {
			switch {
			case err == nil:
				return segmentFile{file, current, true}, nil
			case errors.Is(err, fs.ErrNotExist) && (current > 1 || len(list) > 0):
				return segmentFile{number: current, last: true}, nil // nothing has been written to it yet
			}
			return segmentFile{}, err
		}
		if err == nil { // it may have been rotated before it was opened
			file.Close()
		}
		if failed != nil { // not reached in tests: the same step has worked above
			return segmentFile{}, failed
		}
	}
}

// maxLine is the maximum length of a line, in bytes.
const maxLine = 64 << 20

// readLines calls f for each line from position at, and returns the offset after the last one.
func (s segmentFile) readLines(ctx context.Context, at position, f func(cursor string, line []byte) error) (int64, error) {
	if _, err := s.Seek(at.offset, io.SeekStart); err != nil {
		return at.offset, fmt.Errorf("audit: %w", err)
	}
	r := bufio.NewReaderSize(s, 256<<10)
	var long, cursor []byte
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxLine {
				return at.offset, fmt.Errorf("audit: %s: offset %d: a line is longer than %d bytes", s.Name(), at.offset, maxLine)
			}
			continue
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		unfinished := errors.Is(err, io.EOF)
		if err != nil && !unfinished {
			return at.offset, fmt.Errorf("audit: %w", err)
		}
		if len(line) == 0 || unfinished && s.last {
			return at.offset, nil
		}
		at.offset += int64(len(line))
		if !unfinished {
			line = line[:len(line)-1]
		}
		if err := ctx.Err(); err != nil {
			return at.offset, err
		}
		cursor = at.append(cursor[:0])
		if err := f(string(cursor), line); err != nil {
			return at.offset, err
		}
		long = long[:0]
	}
}
