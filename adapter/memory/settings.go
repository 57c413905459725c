package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tenetdev/tenet/job"
)

// settings are what operators have set.
type settings struct {
	version int64
	list    map[settingName]job.Setting
}

type settingName struct {
	kind job.SettingKind
	name string
}

// Settings implements job.SettingStore.
func (s *Jobs) Settings(ctx context.Context, known int64) ([]job.Setting, int64, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.mu.Unlock()
	if s.settings.version == known {
		return nil, known, nil
	}
	byName := func(a, b job.Setting) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) }
	list := slices.SortedFunc(maps.Values(s.settings.list), byName)
	for i := range list {
		list[i].Value, list[i].Previous = slices.Clone(list[i].Value), slices.Clone(list[i].Previous)
	}
	return list, s.settings.version, nil
}

// PutSetting implements job.SettingStore.
func (s *Jobs) PutSetting(ctx context.Context, set job.Setting, version int64) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.settings.version != version {
		return fmt.Errorf("memory: put setting: %w: the settings have changed", job.ErrConflict)
	}
	if s.settings.list == nil {
		s.settings.list = map[settingName]job.Setting{}
	}
	name := settingName{set.Kind, set.Name}
	before := s.settings.list[name]
	set.At, set.Value, set.Previous, set.PreviousAt = now, slices.Clone(set.Value), before.Value, before.At
	s.settings.list[name] = set
	s.settings.version++
	return nil
}
