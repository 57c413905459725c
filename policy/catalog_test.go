package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestP11Catalog(t *testing.T) {
	type row struct {
		attempts           int
		base, top, timeout float64
	}
	want := map[Category]row{
		NATSConnect: {5, 1, 30, 10}, NATSPublish: {3, 0.5, 10, 5}, NATSSubscribe: {3, 0.5, 10, 5}, NATSStreamCreate: {2, 2, 60, 15},
		KVCreate: {2, 1, 30, 10}, KVGet: {3, 0.5, 10, 5}, KVPut: {3, 0.5, 10, 5}, KVDelete: {2, 1, 30, 5},
		ExecutionIntent: {2, 2, 60, 30}, ExecutionContainment: {2, 2, 60, 60}, ExecutionExpiration: {1, 1, 30, 120},
		ApprovalCheck: {3, 1, 30, 5}, ApprovalGrant: {2, 2, 60, 10}, ReplayProcessing: {1, 1, 30, 300}, ReplayValidation: {2, 1, 30, 60},
		APIRequest: {3, 1, 30, 30}, APIValidation: {2, 0.5, 10, 10},
	}
	if len(want) != 17 || len(Categories()) != 17 || len(Category("").Values()) != 17 {
		t.Fatalf("%d categories", len(Categories()))
	}
	codes := map[string]bool{}
	for _, c := range Categories() {
		r, known := c.Policy()
		got := row{r.MaxAttempts, r.InitialBackoff.Seconds(), r.MaxBackoff.Seconds(), r.TimeoutPerAttempt.Seconds()}
		if !known || got != want[c] || r.BackoffMultiplier != 2 || r.Jitter != JitterProportional || r.JitterFactor != 0.1 {
			t.Errorf("%s: %+v", c, r)
		}
		if codes[c.Code()] || !strings.HasPrefix(c.Code(), "RETRY_") {
			t.Errorf("%s has code %s", c, c.Code())
		}
		codes[c.Code()] = true
		p, err := (Policy{Category: c}).Normalize(CallLimits())
		if err != nil || p.Retry.MaxAttempts != r.MaxAttempts || p.Retry.TimeoutPerAttempt != r.TimeoutPerAttempt || p.Retry.JitterFactor != 0.1 || len(p.Meta.Clamped) != 0 {
			t.Errorf("%s normalised: %+v %v", c, p, err)
		}
	}
	if Category("").Code() != "" {
		t.Error("no category has a code")
	}
}

func TestP11AnUnknownCategoryIsAWarning(t *testing.T) {
	p, err := (Policy{Category: "LAUNCH"}).Normalize(CallLimits())
	if err != nil || p.Retry.MaxAttempts != 3 || p.Retry.InitialBackoff != time.Second || p.Retry.MaxBackoff != 30*time.Second || len(p.Meta.Warnings) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	again, err := p.Normalize(CallLimits())
	if err != nil || len(again.Meta.Warnings) != 1 {
		t.Errorf("warned again: %v %v", again.Meta.Warnings, err)
	}
}

func TestP12APolicyOverridesItsCategory(t *testing.T) {
	p, err := (Policy{Category: NATSConnect, Retry: Retry{
		MaxAttempts: 2, InitialBackoff: ms, MaxBackoff: time.Second, BackoffMultiplier: 3, Jitter: JitterNone, TimeoutPerAttempt: time.Second,
	}}).Normalize(CallLimits())
	r := p.Retry
	if err != nil || r.MaxAttempts != 2 || r.InitialBackoff != ms || r.MaxBackoff != time.Second || r.BackoffMultiplier != 3 || r.Jitter != JitterNone || r.TimeoutPerAttempt != time.Second {
		t.Errorf("%+v %v", r, err)
	}
}

func TestC4Classes(t *testing.T) {
	for class, parent := range map[Class]Class{
		"http_503": ClassHTTP5xx, "http_429": ClassHTTP4xx, "http_404": ClassHTTP4xx, ClassHTTP5xx: "", ClassEOF: ClassNetwork, ClassTimeout: "",
		"grpc_unavailable": ClassGRPC, ClassSQLDeadlock: ClassSQL, ClassNATSTimeout: ClassNATS, ClassDNS: ClassNetwork, ClassTLS: ClassNetwork,
	} {
		if !class.Known() || class.Parent() != parent || !class.Within(class) || parent != "" && !class.Within(parent) || class.Within("other") {
			t.Errorf("%s: known %v, parent %q", class, class.Known(), class.Parent())
		}
	}
	for _, class := range []Class{"", "http_", "http_200", "http_600", "http_+404", "http_0404", "quota", "HTTP_503"} {
		if class.Known() || class.Parent() != "" {
			t.Errorf("%q is known", class)
		}
	}
	if HTTPClass(503) != "http_503" || HTTPClass(200) != "" || HTTPClass(600) != "" || HTTPClass(399) != "" {
		t.Error("HTTPClass")
	}
	list := Classes()
	if !slices.IsSorted(list) || !slices.Contains(list, "http_503") || slices.ContainsFunc(list, func(c Class) bool { return !c.Known() }) {
		t.Errorf("%v", list)
	}
}

func TestP4TriggersThatNeedNoRegistration(t *testing.T) {
	Triggers()[0] = "changed"
	if diff := cmp.Diff([]string{"fixed", "p50", "p90", "p95", "p99"}, Triggers()); diff != "" {
		t.Error(diff)
	}
}

func TestD6ReasonsAreClosedAndDocumented(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if seen[r.Reason] || r.Meaning == "" || strings.Trim(string(r.Reason), "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%+v", r)
		}
		if !slices.Contains([]string{"outcome", "decision", "idempotency", "admission", "report", "job"}, r.Where) {
			t.Errorf("%s is found at %q", r.Reason, r.Where)
		}
		if succeeded := r.Reason == ReasonSuccess || r.Reason == ReasonIdempotencyHit; r.Reason.Succeeded() != succeeded {
			t.Errorf("%s: succeeded is %v", r.Reason, !succeeded)
		}
		seen[r.Reason] = true
	}
	for _, name := range declaredReasons(t) {
		if !seen[Reason(name)] {
			t.Errorf("%s is declared and not documented", name)
		}
		delete(seen, Reason(name))
	}
	if len(seen) != 0 {
		t.Errorf("documented and not declared: %v", seen)
	}
}

func TestP11ACategoryIsAcceptedByNameAndByCode(t *testing.T) {
	for _, c := range Categories() {
		for _, s := range []string{string(c), c.Code()} {
			var p Policy
			err := json.Unmarshal([]byte(`{"category": "`+s+`"}`), &p)
			normal, faults := Policy{Category: Category(s)}.Normalize(CallLimits())
			if err != nil || faults != nil || p.Category != c || normal.Category != c || len(normal.Meta.Warnings) != 0 {
				t.Errorf("%s is read as %q and %q, %v, %v", s, p.Category, normal.Category, err, faults)
			}
			if err := (Policy{Category: Category(s)}).Validate(CallLimits()); err != nil || Category(s).Code() != c.Code() {
				t.Errorf("%s: %v, code %s", s, err, Category(s).Code())
			}
		}
	}
	for _, s := range []string{"LAUNCH", "RETRY_", "RETRY_LAUNCH", "RETRY_RETRY_KV_GET", "kv_get"} {
		if c, known := ParseCategory(s); known || c != Category(s) || c.Code() != "" {
			t.Errorf("%s is known as %q, code %q", s, c, c.Code())
		}
	}
}

func TestP12AStepWithoutACategoryTakesThatOfItsEngine(t *testing.T) {
	c, err := Consumer{Category: "RETRY_KV_GET", Steps: ConsumerSteps{
		Fetch: FetchStep{Category: NATSConnect}, Process: Step{Retry: Retry{MaxAttempts: 7}},
	}}.Normalize(StepLimits())
	if s := c.Steps; err != nil || s.Fetch.Category != NATSConnect || s.Fetch.Retry.MaxAttempts != 5 || s.Process.Category != KVGet ||
		s.Process.Retry.MaxAttempts != 7 || s.Process.Retry.TimeoutPerAttempt != 5*time.Second || s.Success.Category != KVGet {
		t.Errorf("%+v, %v", s, err)
	}
	p, err := Producer{Category: KVPut}.Normalize(StepLimits())
	if s := p.Steps; err != nil || s.Produce.Category != KVPut || s.Exception.Retry.MaxAttempts != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	c.Steps.Process.Retry.TimeoutPerAttempt = 0
	if again, err := c.Normalize(StepLimits()); err != nil || again.Steps.Process.Retry.TimeoutPerAttempt != 0 {
		t.Errorf("normalising again brought the catalog's timeout back: %v", err)
	}
}
