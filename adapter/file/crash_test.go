package file_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/file"
)

const (
	crashDir   = "TENET_FILE_TEST_CRASH_DIR"
	crashLines = 40_000
	inFlight   = 10
)

// TestChildCopies is the process that TestL5AKilledProcessLosesNothing kills.
func TestChildCopies(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return
	}
	copyLines(t, filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl"), inFlight, file.SinkOptions{NoSync: true})
}

// TestL5AKilledProcessLosesNothing checks that a process that is killed again and again writes every line, and repeats only
// lines that were not acknowledged.
func TestL5AKilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	writeLines(t, in, crashLines)
	kills := 0
	for {
		child := exec.Command(os.Args[0], "-test.run=^TestChildCopies$")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if kills < 2 {
			size := partSize(out) // 3 MiB are more lines than may be repeated
			for end := time.Now().Add(time.Minute); partSize(out) < size+3<<20 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := child.Wait(); err == nil {
				t.Fatalf("the process finished before kill %d", kills+1)
			}
			kills++
			continue
		}
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
		break
	}
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen, lines := map[string]bool{}, 0
	for r := bufio.NewScanner(file); r.Scan(); lines++ {
		var o order
		if err := json.Unmarshal(r.Bytes(), &o); err != nil {
			t.Fatalf("line %d: %v", lines+1, err)
		}
		seen[o.ID] = true
	}
	t.Logf("%d kills, %d lines, %d repeated", kills, lines, lines-len(seen))
	if len(seen) != crashLines {
		t.Errorf("%d of %d lines arrived", len(seen), crashLines)
	}
	// The engine stops fetching when 4,096 acknowledgements are pending, and a batch has 1,000.
	if twice := lines - len(seen); twice > kills*(2*4096+1000+inFlight) {
		t.Errorf("%d lines were repeated", twice)
	}
}

func partSize(out string) int64 {
	info, err := os.Stat(out + ".part")
	if err != nil {
		return 0
	}
	return info.Size()
}
