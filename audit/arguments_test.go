package audit_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/policy"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	var sink audit.MemorySink
	ctx := t.Context()
	testargument.Refused(t, map[string]func() error{
		`audit: Open: the sink is nil`:          func() error { _, err := audit.Open(ctx, nil, audit.Options{}); return err },
		`audit: Open: the context is nil`:       func() error { _, err := audit.Open(none, &sink, audit.Options{}); return err },
		`audit: OpenFile: the path is empty`:    func() error { _, err := audit.OpenFile("", audit.FileOptions{}); return err },
		`audit: NewSlogSink: the logger is nil`: func() error { audit.NewSlogSink(nil, slog.LevelInfo); return nil },
		`audit: explain: the source is nil`:     func() error { _, err := audit.Explain(ctx, nil, "w"); return err },
		`audit: explain: the context is nil`:    func() error { _, err := audit.Explain(none, &sink, "w"); return err },
		`audit: replay: the source is nil`:      func() error { _, err := audit.Replay(ctx, nil, audit.ReplayOptions{}); return err },
		`audit: replay: the context is nil`:     func() error { _, err := audit.Replay(none, &sink, audit.ReplayOptions{}); return err },
		`audit: stats: the source is nil`:       func() error { _, err := audit.Statistics(ctx, nil, audit.Spill{}); return err },
		`audit: verify: the source is nil`:      func() error { _, err := audit.Verify(ctx, nil, audit.VerifyOptions{}); return err },
		`audit: what if: the source is nil`: func() error {
			_, err := audit.WhatIf(ctx, nil, policy.NewSet(policy.SetConfig{}), audit.ReplayOptions{})
			return err
		},
		`audit: what if: the set of policies is nil`: func() error { _, err := audit.WhatIf(ctx, &sink, nil, audit.ReplayOptions{}); return err },
	})
}
