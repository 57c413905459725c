package ui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// everyPage lists a path of every page.
func (s *site) everyPage() map[string]string {
	jobs, err := s.db.Jobs().List(s.t.Context(), deadJobs, "", 1)
	if err != nil || len(jobs) == 0 {
		s.t.Fatal("no dead job", err)
	}
	return map[string]string{
		"overview": "", "queues": "queues", "jobs": "jobs?filter=state%3Adead", "job": "jobs/" + jobs[0].ID, "components": "components",
		"pause": "do/queues/mail/pause",
	}
}

func TestU3EveryPageIsAccessibleInLightAndDarkAtEveryWidth(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	for name, path := range s.everyPage() {
		t.Run(name, func(t *testing.T) {
			for _, l := range []look{{360, 740, false, true}, {1280, 900, true, true}, {2560, 1440, false, true}, {320, 640, true, true}} {
				b := s.tab(t, l)
				b.open(path)
				b.accessible(fmt.Sprintf("%s at %d", name, l.width))
				if wide := value[float64](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
					t.Errorf("%s at %d: the page is %v px wider than the window", name, l.width, wide)
				}
				if dir := os.Getenv("SCREENSHOTS"); dir != "" {
					mode := "light"
					if l.dark {
						mode = "dark"
					}
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, l.width, mode)), b.screenshot(), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				b.close()
			}
		})
	}
}
