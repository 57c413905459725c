package tenet_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
)

func readReadme(t *testing.T) page {
	t.Helper()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return cut("README.md", string(raw))
}

// saved finds the name of the file in which the reader saves a block.
var saved = regexp.MustCompile("Save this as `([^`]+)`")

// TestReadmeRuns follows README.md block by block in a new folder: it saves files, runs the programs and commands, and
// compares their output with the block of text after them.
func TestReadmeRuns(t *testing.T) {
	dir := t.TempDir()
	writeModule(t, dir)
	list := readReadme(t).blocks
	ran := map[string]int{}
	for i, b := range list {
		if name := saved.FindStringSubmatch(b.intro); name != nil {
			write(t, filepath.Join(dir, name[1]), b.code)
			if b.language == "go" {
				b.code = "go run " + name[1]
			}
		} else if b.language == "go" {
			t.Errorf("%s: nothing says what to save the program as", b.at)
		}
		if b.language != "go" && b.language != "sh" || strings.Contains(b.code, "go install ") || strings.Contains(b.code, "make test") {
			continue
		}
		output := runScript(t, dir, b)
		if i+1 < len(list) && list[i+1].language == "text" && output != list[i+1].code {
			t.Errorf("%s prints\n%s", b.at, output)
		}
		ran[b.language]++
	}
	if ran["go"] < 3 || ran["sh"] < 2 {
		t.Errorf("ran only these blocks: %v", ran)
	}
}

// runScript runs a block as a reader in a clone at dir would, and returns its standard output.
func runScript(t *testing.T, dir string, b block) string {
	t.Helper()
	script := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(b.code, " ./cmd/", " "+module+"/cmd/"))
	script.Dir = dir
	var stdout, stderr bytes.Buffer
	script.Stdout, script.Stderr = &stdout, &stderr
	if err := script.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", b.at, err, &stdout, &stderr)
	}
	return stdout.String()
}

// TestReadmeTimelineIsWhatIsPrinted makes the README's call under the README's document, in virtual time: an error, a timeout
// and a success.
func TestReadmeTimelineIsWhatIsPrinted(t *testing.T) {
	readme := readReadme(t)
	i := slices.IndexFunc(readme.blocks, func(b block) bool { return b.language == "yaml" })
	if i < 0 {
		t.Fatal("README.md has no document")
	}
	document, err := policyfile.Parse(readme.blocks[i].at, []byte(readme.blocks[i].code), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var timeline observe.Timeline
	synctest.Test(t, func(t *testing.T) {
		executor := retry.NewExecutor(retry.ExecutorOptions{Provider: document.Set})
		timeline, err = executor.DoWithTimeline(t.Context(), policy.ParseKey("user-service.GetUser"), getUser, retry.WithSeed(17))
		if err != nil {
			t.Error(err)
		}
	})
	if !slices.ContainsFunc(readme.blocks, func(b block) bool { return b.language == "text" && b.code == timeline.String() }) {
		t.Errorf("README.md must show this timeline:\n%s", timeline)
	}
}

// getUser is a faulty user service.
func getUser(ctx context.Context) error {
	attempt, _ := retry.AttemptFromContext(ctx)
	switch attempt.Number {
	case 1:
		time.Sleep(96 * time.Millisecond)
		return errors.New("503 Service Unavailable")
	case 2:
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(37 * time.Millisecond)
	return nil
}
