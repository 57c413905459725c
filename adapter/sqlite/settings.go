package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/tenetdev/tenet/job"
)

const (
	settingsSQL = `SELECT kind, name, value, by, at, previous, previous_at FROM tenet_setting ORDER BY kind, name`
	versionSQL  = `SELECT coalesce(max(version), 0) FROM tenet_setting`
	settingSQL  = `INSERT INTO tenet_setting (kind, name, value, by, at, previous_at, version)
SELECT ?1, ?2, ?3, ?4, ?5, 0, ?6 + 1 WHERE (` + versionSQL + `) = ?6
ON CONFLICT (kind, name) DO UPDATE SET previous = value, previous_at = at, value = excluded.value, by = excluded.by, at = excluded.at, version = excluded.version`
)

// Settings implements job.SettingStore.
func (s *Jobs) Settings(ctx context.Context, known int64) (list []job.Setting, version int64, err error) {
	err = s.view(ctx, "settings", func(q querier) error {
		list = nil
		err := one(q, selection{text: versionSQL, into: []any{&version}})
		if err != nil || version == known {
			return err
		}
		var x job.Setting
		var value, previous sql.NullString
		into := []any{&x.Kind, &x.Name, &value, &x.By, (*instant)(&x.At), &previous, (*instantOrNone)(&x.PreviousAt)}
		return each(q, selection{text: settingsSQL, into: into}, func() error {
			x.Value, x.Previous = rawOf(value), rawOf(previous)
			list = append(list, x)
			return nil
		})
	})
	return list, version, err
}

func rawOf(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

// PutSetting implements job.SettingStore.
func (s *Jobs) PutSetting(ctx context.Context, x job.Setting, version int64) error {
	return s.write(ctx, "put setting", func(q querier) error {
		value := sql.NullString{String: string(x.Value), Valid: x.Value != nil}
		n, err := q.update(settingSQL, string(x.Kind), x.Name, value, x.By, now().UnixMicro(), version)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: the settings have changed", job.ErrConflict)
		}
		return err
	})
}
