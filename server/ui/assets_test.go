package ui_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestU1VendoredFilesAreWhatTheirChecksumsSay(t *testing.T) {
	sums, err := os.Open("vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(sums); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		raw, err := os.ReadFile(filepath.Join("vendor", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != sum {
			t.Errorf("%s has the checksum %s, not %s", name, got, sum)
		}
		listed[name] = true
	}
	all, err := filepath.Glob("vendor/*.*s")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, path := range all {
		if !listed[filepath.Base(path)] {
			t.Errorf("%s has no checksum", path)
		}
	}
}

// compressed returns the bytes of an answer as they are sent to a browser that takes gzip.
func (s *site) compressed(path string) (size int, header http.Header) {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.http.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip") // so that the client leaves it compressed
	answer, err := s.http.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s %v", path, answer.Status, err)
	}
	if answer.Header.Get("Content-Encoding") != "gzip" {
		s.t.Errorf("%s is not compressed", path)
	}
	return len(raw), answer.Header
}

func TestU1TheFirstLoadOfTheOverviewTakesAtMostSixtyKilobytes(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	html := s.get("")
	total, _ := s.compressed("/ui/")
	t.Logf("%6d the page", total)
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`"(/ui/static/[^"]+)"`).FindAllStringSubmatch(html, -1) {
		if found[m[1]] {
			continue
		}
		found[m[1]] = true
		size, header := s.compressed(m[1])
		t.Logf("%6d %s", size, m[1])
		total += size
		if c := header.Get("Cache-Control"); !strings.Contains(c, "immutable") {
			t.Errorf("%s: Cache-Control %q", m[1], c)
		}
	}
	t.Logf("%6d in all", total)
	if len(found) < 7 || total > 60_000 {
		t.Errorf("%d bytes in %d files; at most 60,000 are allowed", total, len(found))
	}
}

func TestU1ThePolicyOfContentAllowsNothingInlineAndNothingFromElsewhere(t *testing.T) {
	s := newSite(t, nil)
	answer, err := s.http.Client().Get(s.http.URL + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'nonce-", "style-src 'nonce-", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("no %s in %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("the policy is open: %s", policy)
	}
	again, err := s.http.Client().Get(s.http.URL + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Body.Close()
	if again.Header.Get("Content-Security-Policy") == policy {
		t.Error("two answers have the same nonce")
	}
}
