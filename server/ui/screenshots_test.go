package ui_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes the pictures of docs/ui.md, where SCREENSHOTS names their folder: make screenshots. SCREENSHOTS_ONLY,
// a regular expression, chooses among them.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		t.Skip("SCREENSHOTS is not set")
	}
	s := newSite(t, nil)
	s.seedAll()
	for name, path := range s.everyPage() {
		if only := os.Getenv("SCREENSHOTS_ONLY"); only != "" && !regexp.MustCompile(only).MatchString(name) {
			continue
		}
		for mode, dark := range map[string]bool{"light": false, "dark": true} {
			b := s.tab(t, look{width: 1280, height: 900, dark: dark, scripts: true})
			b.open(path)
			b.do(chromedp.Sleep(300 * time.Millisecond)) // charts are drawn after the page
			if err := os.WriteFile(filepath.Join(folder, name+"-"+mode+".png"), b.screenshot(), 0o644); err != nil {
				t.Fatal(err)
			}
			b.close()
		}
	}
}
