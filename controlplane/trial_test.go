package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/rollout"
)

// TestS3ACallWithoutAKeyDoesNotSpoilAReport: executors take the empty key, which a server refuses.
func TestS3ACallWithoutAKeyDoesNotSpoilAReport(t *testing.T) {
	c := &counter{mechanisms: newMechanisms(), pipelines: newPipelines()}
	p, err := policy.Compile(policy.Policy{Retry: policy.Retry{MaxAttempts: 1}}, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		t.Fatal(err)
	}
	c.trial.put(&tried{number: 2, set: policy.NewSet(policy.SetConfig{Calls: p}), divergences: map[rollout.Divergence]int64{}})
	e := retry.NewExecutor(retry.ExecutorOptions{Observer: c, Shadow: &c.trial})
	_ = e.Do(context.Background(), policy.Key{}, func(context.Context) error { return errors.New("down") })
	report := c.trial.report()
	if report.Others == 0 {
		t.Errorf("%+v", report)
	}
	data, err := json.Marshal(protocol.Report{Client: "c", Session: "s", Sequence: 1, Trial: report})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.ReadReport(data); err != nil {
		t.Error(err)
	}
}
