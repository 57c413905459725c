package recording

import (
	"context"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
)

// Change is a setting of a job store and the URL of the log that records its change first; empty for none.
type Change struct {
	job.Setting
	Log string
}

// Set records a change of a setting, then makes it.
func Set(ctx context.Context, a *cli.App, s job.SettingStore, c Change) error {
	x := c.Setting
	x.By = Actor()
	_, err := job.ChangeSetting(ctx, s, x, func(before *job.Setting, _ int64) error {
		return Put(ctx, a, c.Log, operation.OnSetting(*before, c.Setting))
	})
	return err
}
