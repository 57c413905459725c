package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func compiled(t *testing.T, document string) *policy.Set {
	t.Helper()
	d, err := policyfile.Parse("demo.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Warnings) > 0 {
		t.Errorf("warnings: %v", d.Warnings)
	}
	return d.Set
}

func embedded(t *testing.T) []Delivery {
	t.Helper()
	list, err := Deliveries()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTheScheduleIsAPureFunctionOfSeedDeliveryAndRequest(t *testing.T) {
	s := Schedule{Seed: 1}
	for n := range 100 {
		if again := (Schedule{Seed: 1}); s.Fault("orders", "a", n) != again.Fault("orders", "a", n) || s.Latency("a", n) != again.Latency("a", n) {
			t.Errorf("two answers for request %d", n)
		}
	}
	counts := map[Fault]int{}
	const n = 20_000
	for i := range n {
		counts[s.Fault("orders", "delivery", i+1)]++
	}
	for _, want := range requests {
		if got := float64(counts[want.fault]) / n; got < want.part*0.8 || got > want.part*1.2 {
			t.Errorf("%s: share %.4f, want about %.4f", want.fault, got, want.part)
		}
	}
	for i := range 200 {
		if d := s.Latency("a", i); d < time.Millisecond || d > 12*time.Millisecond {
			t.Errorf("latency %v", d)
		}
	}
}

func TestAFaultAffectsAllRequestsOfADelivery(t *testing.T) {
	s, struck := Schedule{Seed: 3}, 0
	for _, d := range embedded(t) {
		first := s.Fault(d.Queue, d.ID, 1)
		if first != Rejected && first != Broken && first != Closed {
			continue
		}
		struck++
		for n := 2; n < 6; n++ {
			if got := s.Fault(d.Queue, d.ID, n); got != first {
				t.Errorf("%s: request %d gets %s, the first got %s", d.ID, n, got, first)
			}
		}
	}
	if struck == 0 {
		t.Error("no delivery was affected")
	}
}

func TestDeliveriesAreParsed(t *testing.T) {
	const good = `{"type":"http","queue":"q","unique_key":"k","payload":{"url":"http://demo.invalid/x","body":"b","expect_status":204}}`
	list, err := parseDeliveries(good + "\n\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Delivery{{ID: "k", Queue: "q", Request: httpjob.Payload{URL: "http://demo.invalid/x", Body: json.RawMessage(`"b"`), ExpectStatus: httpjob.Statuses{204}}}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, lines := range map[string]string{
		"line 2: unique_key": good + "\n" + good,
		"line 1: type":       strings.Replace(good, `"http"`, `"other"`, 1),
		"unique_key: miss":   strings.Replace(good, `"k"`, `""`, 1),
		"queue: miss":        strings.Replace(good, `"q"`, `""`, 1),
		"url: must be":       strings.Replace(good, `http://demo.invalid/x`, `file:///x`, 1),
		"line 1: ":           "{",
	} {
		if _, err := parseDeliveries(lines); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
}

func TestTheEmbeddedDeliveriesAreVaried(t *testing.T) {
	queues, methods, statuses := map[string]int{}, map[string]int{}, map[string]int{}
	for _, d := range embedded(t) {
		queues[d.Queue]++
		methods[d.Request.Method]++
		statuses[fmt.Sprint(d.Request.ExpectStatus)]++
		if !strings.HasPrefix(d.Request.URL, "http://demo.invalid/hooks/"+d.Queue) || len(d.Request.Body) < 3 {
			t.Errorf("%s: %s with %d bytes", d.ID, d.Request.URL, len(d.Request.Body))
		}
	}
	if len(queues) != 10 || len(methods) != 4 || len(statuses) != 4 {
		t.Errorf("queues %v, methods %v, statuses %v", queues, methods, statuses)
	}
	if len(deliveries) > 400_000 {
		t.Errorf("%d bytes", len(deliveries))
	}
}
