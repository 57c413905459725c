package ui_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes the pictures of docs/ui.md, where SCREENSHOTS names their folder: make screenshots. SCREENSHOTS_ONLY,
// a regular expression, chooses among them; SCREENSHOTS_WIDTH, in pixels, is that of another window than the pictures'.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("SCREENSHOTS is not set")
	}
	width := int64(1280)
	if text := os.Getenv("SCREENSHOTS_WIDTH"); text != "" {
		var err error
		if width, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("SCREENSHOTS_WIDTH: %v", err)
		}
	}
	s := newSite(t, nil)
	s.seedAll()
	for name, path := range s.everyPage() {
		if only := os.Getenv("SCREENSHOTS_ONLY"); only != "" && !regexp.MustCompile(only).MatchString(name) {
			continue
		}
		for mode, dark := range map[string]bool{"light": false, "dark": true} {
			b := s.tab(t, look{width: width, height: 900, dark: dark, scripts: true})
			b.open(path)
			b.do(chromedp.Sleep(300 * time.Millisecond)) // charts are drawn after the page
			if err := os.WriteFile(filepath.Join(folder, name+"-"+mode+".png"), b.screenshot(), 0o644); err != nil {
				t.Fatal(err)
			}
			b.close()
		}
	}
}
