package job_test

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// TestJ22APeriodicJobOfTheStoreKeepsItsTimes tries to store jobs in time zones that another machine could not look up by name.
func TestJ22APeriodicJobOfTheStoreKeepsItsTimes(t *testing.T) {
	summer := time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, zone := range []*time.Location{time.FixedZone("CET", 3600), time.FixedZone("", 7200), time.Local} {
		p := job.Periodic{Name: "p", Cron: "0 3 * * *", Location: zone, Request: job.Request{Type: "t"}}
		s, err := job.PeriodicSetting(p)
		if err != nil {
			continue // refused
		}
		stored, _, err := s.Periodic()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := p.Next(summer)
		if got, _ := stored.Next(summer); !got.Equal(want) {
			t.Errorf("%v: the next tick is %v, want %v", zone, got.UTC(), want.UTC())
		}
	}
}
