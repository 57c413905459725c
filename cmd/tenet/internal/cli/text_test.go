package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestO1TextIsPrintedThroughEscapingFunctions checks that commands print only through the functions that escape data.
func TestO1TextIsPrintedThroughEscapingFunctions(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../../main.go")
	direct := regexp.MustCompile(`fmt\.(Fp|P)rint|os\.Std(out|err)\b`)
	reasons := map[string]string{
		"../cli/text.go": "the place", "../../main.go": "passes the streams on", "../monitor/health.go": "answers over HTTP",
		"../demo/report.go": "writes to a hash",
	}
	ours := []string{"../gen", "../release"} // commands for developers
	seen := 0
	for _, file := range files {
		if reasons[file] != "" || slices.Contains(ours, filepath.Dir(file)) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		for i, line := range strings.Split(string(text), "\n") {
			if direct.MatchString(line) {
				t.Errorf("%s:%d: print with fprintf, fprintln or textf, which escape data: %s", file, i+1, strings.TrimSpace(line))
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d files were read", seen)
	}
}

func TestO1ArgumentsAreEscapedAndFormatsAreNot(t *testing.T) {
	var b strings.Builder
	bad := "a\nb\x1b[2J"
	Fprintf(&b, "%s|%-6s|%q|%v|%d|%s\n", bad, "x\ty", "q\n", errors.New(bad), 7, Safe("own\tword"))
	Fprintln(&b, bad, 1, []string{bad})
	const want = `a\nb\x1b[2J|x\ty   |"q\n"|a\nb\x1b[2J|7|own	word` + "\n" + `a\nb\x1b[2J 1 [a\nb\x1b[2J]` + "\n"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

func TestO1EachPartOfAJoinedErrorHasItsLine(t *testing.T) {
	err := errors.Join(errors.New("one"), Fail(ExitUsage, errors.Join(errors.New("two\nforged"), fmt.Errorf("three: %w", errors.Join(errors.New("a"), errors.New("b"))))))
	want := []string{"one", "two\nforged", "three: a\nb"}
	if got := sentences(err); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
