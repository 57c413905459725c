package policyimport_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

const serviceConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [
    {
      "name": [{"service": "users.Users", "method": "Get"}, {"service": "users.Users", "method": "List"}],
      "timeout": "2.5s", "waitForReady": true,
      "retryPolicy": {
        "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 1.5,
        "retryableStatusCodes": ["UNAVAILABLE", "resource_exhausted", 10, "UNAVAILABLE"]
      }
    },
    {
      "name": [{"service": "users.Search"}],
      "hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.05s", "nonFatalStatusCodes": ["UNAVAILABLE"]}
    },
    {"name": [{"service": "users.Users", "method": "Delete"}], "timeout": "1s"}
  ],
  "retryThrottling": {"maxTokens": 20, "tokenRatio": 0.1}
}`

func TestGRPCServiceConfig(t *testing.T) {
	got, err := policyimport.GRPC([]byte(serviceConfig))
	if err != nil {
		t.Fatal(err)
	}
	get := policy.Policy{Retry: policy.Retry{
		MaxAttempts: 4, InitialBackoff: 100 * time.Millisecond, MaxBackoff: time.Second, BackoffMultiplier: 1.5,
		Jitter: policy.JitterProportional, JitterFactor: 0.2, OverallTimeout: 2500 * time.Millisecond, ClassifierName: "grpc",
		RetryOn: []policy.Class{"grpc_unavailable", "grpc_resource_exhausted", "grpc_aborted"},
		Budget:  policy.BudgetRef{Name: "grpc-retry-throttling"},
	}}
	want := policyimport.Converted{
		Policies: map[string]policy.Policy{
			"users.Users.Get": get, "users.Users.List": get,
			"users.Search": {
				Retry: policy.Retry{
					MaxAttempts: 1, ClassifierName: "grpc", RetryOn: []policy.Class{"grpc_unavailable"},
					Budget: policy.BudgetRef{Name: "grpc-retry-throttling"},
				},
				Hedge: policy.Hedge{Enabled: true, MaxHedges: 2, HedgeDelay: 50 * time.Millisecond, TriggerName: "fixed", CancelOnFirstTerminal: true},
			},
			"users.Users.Delete": {Retry: policy.Retry{MaxAttempts: 1, OverallTimeout: time.Second}},
		},
		Budgets: map[string]policy.Budget{"grpc-retry-throttling": {Kind: policy.BudgetRetryRatio, Ratio: 0.1, Burst: 10}},
	}
	if diff := cmp.Diff(want, got, ignore, cmpopts.IgnoreFields(policyimport.Converted{}, "Report")); diff != "" {
		t.Error(diff)
	}
	paths := []string{
		"retryThrottling", "methodConfig[0].waitForReady", "methodConfig[1].hedgingPolicy.nonFatalStatusCodes",
		"methodConfig[1].name[0]", "loadBalancingConfig", "methodConfig", "methodConfig",
	}
	if diff := cmp.Diff(paths, reported(got)); diff != "" {
		t.Error(diff)
	}
	parses(t, got)
}

func TestGRPCDefaults(t *testing.T) {
	got, err := policyimport.GRPC([]byte(`{"methodConfig": [{"name": [{}], "timeout": "1s"}, {"name": [{"service": "s", "method": "m"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Defaults.Retry.OverallTimeout != time.Second || got.Defaults.Retry.MaxAttempts != 1 || len(got.Policies) != 1 {
		t.Errorf("converted to %+v", got)
	}
	if diff := cmp.Diff([]string{"methodConfig[0].name[0]", "methodConfig"}, reported(got)); diff != "" {
		t.Error(diff)
	}
}

// TestT7TheSpellingsOfTheExamplesOfGRPCForGo: encoding/json ignores the case of names, and grpc-go's durations may begin with the point.
func TestT7TheSpellingsOfTheExamplesOfGRPCForGo(t *testing.T) {
	got, err := policyimport.GRPC([]byte(`{"methodConfig": [{"name": [{"service": "s", "method": "m"}], "timeout": "1.s", "retryPolicy": {
		"MaxAttempts": 4, "InitialBackoff": ".01s", "MaxBackoff": ".02s", "BackoffMultiplier": 1.0, "RetryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r := got.Policies["s.m"].Retry
	if r.MaxAttempts != 4 || r.InitialBackoff != 10*time.Millisecond || r.MaxBackoff != 20*time.Millisecond || r.OverallTimeout != time.Second {
		t.Errorf("%+v", r)
	}
	for _, timeout := range []string{"s", ".s", "1..s", ".0000000001s"} {
		if _, err := policyimport.GRPC([]byte(grpcEntry(`"timeout": "` + timeout + `"`))); err == nil {
			t.Errorf("%s is accepted", timeout)
		}
	}
}

// retryPolicy is a service config with one retry policy, in which field reads value.
func retryPolicy(field, value string) string {
	fields := map[string]string{
		"maxAttempts": `3`, "initialBackoff": `"1s"`, "maxBackoff": `"20s"`, "backoffMultiplier": `2`, "retryableStatusCodes": `[14]`,
	}
	fields[field] = value
	var list []string
	for name, v := range fields {
		if v != "" {
			list = append(list, fmt.Sprintf("%q: %s", name, v))
		}
	}
	return `{"methodConfig": [{"name": [{"service": "s", "method": "m"}], "retryPolicy": {` + strings.Join(list, ", ") + `}}]}`
}

func TestGRPCValuesOutsideTenetsLimits(t *testing.T) {
	tests := map[string]struct {
		field, value string
		path         string
		want         func(policy.Retry) bool
	}{
		"more attempts than gRPC makes": {"maxAttempts", `9`, "maxAttempts", func(r policy.Retry) bool { return r.MaxAttempts == 5 }},
		"a number as a string":          {"maxAttempts", `"4"`, "", func(r policy.Retry) bool { return r.MaxAttempts == 4 }},
		"a shrinking delay":             {"backoffMultiplier", `0.5`, "backoffMultiplier", func(r policy.Retry) bool { return r.BackoffMultiplier == 1 }},
		"a steep delay":                 {"backoffMultiplier", `100`, "backoffMultiplier", func(r policy.Retry) bool { return r.BackoffMultiplier == 10 }},
		"a long cap":                    {"maxBackoff", `"120s"`, "maxBackoff", func(r policy.Retry) bool { return r.MaxBackoff == time.Minute }},
		"a short delay":                 {"initialBackoff", `"0.0001s"`, "initialBackoff", func(r policy.Retry) bool { return r.InitialBackoff == time.Millisecond }},
		"a delay above its cap":         {"initialBackoff", `"25s"`, "maxBackoff", func(r policy.Retry) bool { return r.InitialBackoff == 20*time.Second }},
		"a delay that reaches its cap":  {"maxBackoff", `"2.3s"`, "maxBackoff", func(r policy.Retry) bool { return r.MaxBackoff == 2300*time.Millisecond }},
		"a delay that does not":         {"maxBackoff", `"2.4s"`, "", func(r policy.Retry) bool { return r.MaxBackoff == 2400*time.Millisecond }},
		"a code that is never retried":  {"retryableStatusCodes", `["INTERNAL"]`, "retryableStatusCodes[0]", func(r policy.Retry) bool { return r.RetryOn[0] == "grpc_internal" }},
		"cancelled has two spellings":   {"retryableStatusCodes", `["CANCELLED"]`, "retryableStatusCodes[0]", func(r policy.Retry) bool { return r.RetryOn[0] == "grpc_canceled" }},
		"deadline exceeded":             {"retryableStatusCodes", `[4]`, "retryableStatusCodes[0]", func(r policy.Retry) bool { return r.RetryOn[0] == "grpc_deadline_exceeded" }},
		"a timeout per attempt":         {"perAttemptRecvTimeout", `"0.5s"`, "", func(r policy.Retry) bool { return r.TimeoutPerAttempt == 500*time.Millisecond }},
		"an unknown field":              {"maxAtempts", `3`, "maxAtempts", func(r policy.Retry) bool { return r.MaxAttempts == 3 }},
		"the other spelling of a field": {"per_attempt_recv_timeout", `"0.5s"`, "", func(r policy.Retry) bool { return r.TimeoutPerAttempt == 500*time.Millisecond }},
		"null means absent":             {"perAttemptRecvTimeout", `null`, "", func(r policy.Retry) bool { return r.TimeoutPerAttempt == 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := policyimport.GRPC([]byte(retryPolicy(tt.field, tt.value)))
			if err != nil {
				t.Fatal(err)
			}
			if !tt.want(got.Policies["s.m"].Retry) {
				t.Errorf("converted to %+v", got.Policies["s.m"].Retry)
			}
			var want []string
			if tt.path != "" {
				want = append(want, "methodConfig[0].retryPolicy."+tt.path)
			}
			if diff := cmp.Diff(append(want, "methodConfig", "methodConfig"), reported(got)); diff != "" {
				t.Error(diff)
			}
			parses(t, got)
		})
	}
}

func TestGRPCRejectsInvalidServiceConfigs(t *testing.T) {
	method := func(rest string) string {
		return `{"methodConfig": [{"name": [{"service": "s", "method": "m"}], ` + rest + `}]}`
	}
	hedging := func(rest string) string { return method(`"hedgingPolicy": {` + rest + `}`) }
	tests := map[string]struct{ input, want string }{
		"not JSON":              {`{"methodConfig": [`, "neither JSON nor YAML"},
		"empty":                 {``, "the input is empty"},
		"a list":                {`[]`, "is a list; an object is required"},
		"too long":              {strings.Repeat(" ", 5<<20), "too many"},
		"methodConfig":          {`{"methodConfig": {}}`, "methodConfig: is an object, not a list"},
		"an entry":              {`{"methodConfig": [7]}`, "methodConfig[0]: is a number, not an object"},
		"nothing":               {`{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}`, "grpc service config: methodConfig has no entry"},
		"a null entry":          {`{"methodConfig": [null]}`, "methodConfig[0]: is null"},
		"no name":               {`{"methodConfig": [{"timeout": "1s"}]}`, "methodConfig[0].name: is required"},
		"a method alone":        {`{"methodConfig": [{"name": [{"method": "m"}]}]}`, "methodConfig[0].name[0].service: is required"},
		"a name twice":          {`{"methodConfig": [{"name": [{"service": "s", "method": "m"}, {"service": "s", "method": "m"}]}]}`, "methodConfig[0].name[1]: s.m is named twice"},
		"two defaults":          {`{"methodConfig": [{"name": [{}, {}]}]}`, "methodConfig[0].name[1]: is a second default entry"},
		"white space":           {`{"methodConfig": [{"name": [{"service": "s "}]}]}`, `methodConfig[0].name[0]: "s " contains white space`},
		"a service by number":   {`{"methodConfig": [{"name": [{"service": 1}]}]}`, "methodConfig[0].name[0].service: is a number, not a string"},
		"timeout 0":             {method(`"timeout": "0s"`), "methodConfig[0].timeout: is 0"},
		"timeout in ms":         {method(`"timeout": "300ms"`), `methodConfig[0].timeout: "300ms" is not a duration in seconds`},
		"timeout by number":     {method(`"timeout": 3`), "methodConfig[0].timeout: 3 is not a duration"},
		"timeout below 0":       {method(`"timeout": "-1s"`), `methodConfig[0].timeout: "-1s" is negative`},
		"timeout too long":      {method(`"timeout": "99999999999s"`), "methodConfig[0].timeout: \"99999999999s\" is too long"},
		"both policies":         {method(`"retryPolicy": {}, "hedgingPolicy": {}`), "methodConfig[0]: has both"},
		"policy by string":      {method(`"retryPolicy": "often"`), "methodConfig[0].retryPolicy: is a string, not an object"},
		"one attempt":           {retryPolicy("maxAttempts", `1`), "retryPolicy.maxAttempts: is required, 2 or more"},
		"half an attempt":       {retryPolicy("maxAttempts", `2.5`), "retryPolicy.maxAttempts: 2.5 is not a whole number"},
		"attempts below 0":      {retryPolicy("maxAttempts", `-2`), "retryPolicy.maxAttempts: -2 is not a whole number"},
		"attempts by word":      {retryPolicy("maxAttempts", `"many"`), `retryPolicy.maxAttempts: "many" is not a number`},
		"attempts by list":      {retryPolicy("maxAttempts", `[3]`), `retryPolicy.maxAttempts: a list is not a number`},
		"no attempts":           {retryPolicy("maxAttempts", ``), "retryPolicy.maxAttempts: is required"},
		"no delay":              {retryPolicy("initialBackoff", ``), "retryPolicy.initialBackoff: is required"},
		"a delay of 0":          {retryPolicy("initialBackoff", `"0s"`), "retryPolicy.initialBackoff: is required"},
		"no cap":                {retryPolicy("maxBackoff", ``), "retryPolicy.maxBackoff: is required"},
		"no multiplier":         {retryPolicy("backoffMultiplier", ``), "retryPolicy.backoffMultiplier: is required"},
		"multiplier 0":          {retryPolicy("backoffMultiplier", `0`), "retryPolicy.backoffMultiplier: is required"},
		"multiplier NaN":        {retryPolicy("backoffMultiplier", `.nan`), "retryPolicy.backoffMultiplier: NaN is not a number"},
		"no codes":              {retryPolicy("retryableStatusCodes", ``), "retryPolicy.retryableStatusCodes: is required"},
		"empty codes":           {retryPolicy("retryableStatusCodes", `[]`), "retryPolicy.retryableStatusCodes: is required"},
		"an unknown code":       {retryPolicy("retryableStatusCodes", `["BUSY"]`), `retryPolicy.retryableStatusCodes[0]: "BUSY" is not the code`},
		"the code OK":           {retryPolicy("retryableStatusCodes", `[14, 0]`), "retryPolicy.retryableStatusCodes[1]: 0 is not the code"},
		"a code too high":       {retryPolicy("retryableStatusCodes", `[17]`), "retryPolicy.retryableStatusCodes[0]: 17 is not the code"},
		"hedging once":          {hedging(`"maxAttempts": 1`), "hedgingPolicy.maxAttempts: is required"},
		"throttling without":    {`{"retryThrottling": {}}`, "retryThrottling.maxTokens: is required"},
		"too many tokens":       {`{"retryThrottling": {"maxTokens": 1001, "tokenRatio": 1}}`, "retryThrottling.maxTokens: is required, above 0 and up to 1000"},
		"throttling with ratio": {`{"retryThrottling": {"maxTokens": 10, "tokenRatio": -1}}`, "retryThrottling.tokenRatio: is required"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := policyimport.GRPC([]byte(tt.input))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "grpc service config: ") {
				t.Fatalf("error %v does not contain %q", err, tt.want)
			}
			if got.Policies != nil {
				t.Error("the error comes with a result")
			}
		})
	}
}

func TestGRPCReportsAllFaultsOnce(t *testing.T) {
	_, err := policyimport.GRPC([]byte(`{"methodConfig": [{"name": [{"service": "s"}], "retryPolicy": {"maxAttempts": "x", "maxBackoff": 1}}]}`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes"} {
		if n := strings.Count(err.Error(), "retryPolicy."+field+":"); n != 1 {
			t.Errorf("%s is named %d times in %v", field, n, err)
		}
	}
}

func TestGRPCHedgingEdges(t *testing.T) {
	got, err := policyimport.GRPC([]byte(`{"methodConfig": [{"name": [{"service": "s", "method": "m"}], "hedgingPolicy": {"maxAttempts": 5}}],
		"retryThrottling": {"maxTokens": 1, "tokenRatio": 20}}`))
	if err != nil {
		t.Fatal(err)
	}
	p := got.Policies["s.m"]
	if p.Hedge.MaxHedges != 3 || p.Hedge.HedgeDelay != 10*time.Millisecond {
		t.Errorf("hedging %+v, want it within the limits", p.Hedge)
	}
	if diff := cmp.Diff([]policy.Class{policy.ClassGRPC}, p.Retry.AbortOn); diff != "" {
		t.Errorf("without a non-fatal code every failure ends the call: %s", diff)
	}
	if b := got.Budgets["grpc-retry-throttling"]; b.Ratio != 10 || b.Burst != 1 {
		t.Errorf("budget %+v, want it within the limits", b)
	}
	parses(t, got)
}

var ignore = cmpopts.IgnoreFields(policy.Policy{}, "Meta")

func reported(c policyimport.Converted) []string {
	var paths []string
	for _, n := range c.Report {
		if n.Fidelity != policyimport.Exact {
			paths = append(paths, n.Path)
		}
	}
	return paths
}

// parses checks that the result makes a document without faults or warnings.
func parses(t *testing.T, c policyimport.Converted) {
	t.Helper()
	if err := valid(c); err != nil {
		t.Error(err)
	}
}

// valid returns the faults and warnings of the result as a document.
func valid(c policyimport.Converted) error {
	text, err := policyfile.File{Policies: c.Policies, Budgets: c.Budgets}.Marshal()
	if err != nil {
		return err
	}
	d, err := policyfile.Parse("imported", text, policyfile.Options{})
	if err != nil {
		return fmt.Errorf("%w in\n%s", err, text)
	}
	if len(d.Warnings) > 0 {
		return fmt.Errorf("warning %v in\n%s", d.Warnings[0], text)
	}
	return nil
}
