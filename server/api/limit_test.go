package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/api"
)

func TestJ19ThePeriodOfARateIsExact(t *testing.T) {
	name := job.LimitName{Queue: "mail", Name: "slow"}
	for per, text := range map[time.Duration]string{1001 * time.Millisecond: "1.001", 1118 * time.Millisecond: "1.118"} {
		limit := &policy.JobLimit{Name: "slow", Rate: policy.Rate{Count: 1, Per: per}}
		s := api.NewLimitSetting(job.LimitSetting{LimitName: name, Limit: limit})
		if got, err := json.Marshal(s.Values.Rate.Per); string(got) != text || err != nil {
			t.Errorf("%v is %s, %v", per, got, err)
		}
		if got := s.Setting(name).Limit.Rate.Per; got != per {
			t.Errorf("%v becomes %v", per, got)
		}
	}
}
