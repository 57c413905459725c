package storetest

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/job"
)

// settings returns all settings and their version.
func (s *jobs) settings(store job.SettingStore) (list []job.Setting, version int64) {
	s.Helper()
	list, version, err := store.Settings(s.ctx, -1)
	s.need("Settings", err)
	return list, version
}

func settingCases() []jobsCase {
	put := func(name, value string) job.Setting {
		return job.Setting{Kind: job.SettingConcurrency, Name: name, Value: json.RawMessage(value), By: "ada@host"}
	}
	return []jobsCase{
		{name: "J22/a setting says who made it and when, and what it has replaced", run: func(s *jobs) {
			store := optional[job.SettingStore](s, s.Store)
			if list, version := s.settings(store); len(list) != 0 || version != 0 {
				s.Errorf("an empty store has settings %v, version %d", list, version)
			}
			before := time.Now()
			s.must(store.PutSetting(s.ctx, put("b ü\"", "3"), 0), nil)
			s.must(store.PutSetting(s.ctx, put("a", "4"), 1), nil)
			s.must(store.PutSetting(s.ctx, put("b ü\"", "5"), 2), nil)
			reset := job.Setting{Kind: job.SettingConcurrency, Name: "a", By: "bob"}
			s.must(store.PutSetting(s.ctx, reset, 3), nil)
			s.must(store.PutSetting(s.ctx, job.Setting{Kind: job.SettingPeriodic, Name: "a", Value: json.RawMessage(`{"deleted":true}`)}, 4), nil)
			list, version := s.settings(store)
			want := []job.Setting{
				{Kind: job.SettingConcurrency, Name: "a", By: "bob", Previous: json.RawMessage("4")},
				{Kind: job.SettingConcurrency, Name: "b ü\"", Value: json.RawMessage("5"), By: "ada@host", Previous: json.RawMessage("3")},
				{Kind: job.SettingPeriodic, Name: "a", Value: json.RawMessage(`{"deleted":true}`)},
			}
			if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(job.Setting{}, "At", "PreviousAt")); diff != "" || version != 5 {
				s.Errorf("version %d, settings:\n%s", version, diff)
			}
			for _, x := range list {
				if age := x.At.Sub(before); age < -time.Hour || age > time.Hour || x.At.Location() != time.UTC {
					s.Errorf("%s was set at %v", x.Name, x.At)
				}
				if (x.Previous == nil) != x.PreviousAt.IsZero() || x.PreviousAt.After(x.At) {
					s.Errorf("%s was set before at %v, now at %v", x.Name, x.PreviousAt, x.At)
				}
			}
		}},
		{name: "J1/the store keeps and returns copies of settings", run: func(s *jobs) {
			store := optional[job.SettingStore](s, s.Store)
			for version, value := range []string{"1", "2"} {
				x := put("a", value)
				s.must(store.PutSetting(s.ctx, x, int64(version)), nil)
				x.Value[0] = 'X'
			}
			for range 2 {
				list, _ := s.settings(store)
				if len(list) != 1 || string(list[0].Value) != "2" || string(list[0].Previous) != "1" {
					s.Fatalf("settings: %+v", list)
				}
				list[0].Value[0], list[0].Previous[0] = 'X', 'X'
			}
		}},
		{name: "J22/only news are read", run: func(s *jobs) {
			store := optional[job.SettingStore](s, s.Store)
			s.must(store.PutSetting(s.ctx, put("a", "1"), 0), nil)
			for known, want := range map[int64]int{-1: 1, 0: 1, 1: 0} {
				if list, version, err := store.Settings(s.ctx, known); err != nil || len(list) != want || version != 1 {
					s.Errorf("after version %d: %d settings, version %d, %v", known, len(list), version, err)
				}
			}
		}},
		{name: "J22/a change of an older version is refused and changes nothing", run: func(s *jobs) {
			store := optional[job.SettingStore](s, s.Store)
			s.must(store.PutSetting(s.ctx, put("a", "1"), 0), nil)
			for _, version := range []int64{0, 2, -1} {
				s.must(store.PutSetting(s.ctx, put("a", "2"), version), job.ErrConflict)
				s.must(store.PutSetting(s.ctx, put("b", "2"), version), job.ErrConflict)
			}
			if list, version := s.settings(store); len(list) != 1 || string(list[0].Value) != "1" || version != 1 {
				s.Errorf("version %d, %+v", version, list)
			}
		}},
		{name: "J22/of concurrent changes of one version one is made", real: true, run: func(s *jobs) {
			s.second(func(other *jobs) {
				handles := []job.SettingStore{optional[job.SettingStore](s, s.Store), optional[job.SettingStore](s, other.Store)}
				for version := range int64(10) {
					var made atomic.Int64
					atOnce(8, func(i int) {
						s.count(&made, handles[i%2].PutSetting(s.ctx, put(string(rune('a'+i)), "1"), version), job.ErrConflict)
					})
					if made.Load() != 1 {
						s.Fatalf("version %d: %d changes were made", version, made.Load())
					}
				}
			})
		}},
	}
}
