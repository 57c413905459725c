package job

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestJ15TheTimeZoneOfAMachineIsRefused: workers in different zones would enqueue at different times.
func TestJ15TheTimeZoneOfAMachineIsRefused(t *testing.T) {
	for _, zone := range []string{"Local", "Nowhere/City"} {
		value := json.RawMessage(`{"cron":"0 9 * * *","time_zone":"` + zone + `","job":{"type":"report"}}`)
		if _, _, err := decodePeriodic("daily", value); err == nil || !strings.Contains(err.Error(), "is not a time zone") {
			t.Errorf("%s: %v", zone, err)
		}
	}
}
