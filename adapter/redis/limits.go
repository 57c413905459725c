package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/sharing"
)

// Limits is a sharing.Store. Its clock is the server's. It is safe for concurrent use.
type Limits struct{ db *DB }

var _ sharing.Store = (*Limits)(nil)

// prefix begins the keys of limits. The braces put them into one slot of a cluster, because scripts read several.
const prefix = "{tenet}:limit:"

var (
	// loadScript returns the time in seconds and microseconds, and a version and a state for each key.
	loadScript = redis.NewScript(`
local now = redis.call('TIME')
local out = {now[1], now[2]}
for _, key in ipairs(KEYS) do
	local state = redis.call('HMGET', key, 'version', 'data')
	out[#out + 1] = state[1] or '0'
	out[#out + 1] = state[2] or ''
end
return out`)

	// swapScript stores each state whose version is current. ARGV is the time to live in milliseconds, and a version and a state for
	// each key. It returns 1 for each that was stored, else 0.
	swapScript = redis.NewScript(`
local stored = {}
for i, key in ipairs(KEYS) do
	stored[i] = 0
	if (redis.call('HGET', key, 'version') or '0') == ARGV[2 * i] then
		redis.call('HINCRBY', key, 'version', 1)
		redis.call('HSET', key, 'data', ARGV[2 * i + 1])
		redis.call('PEXPIRE', key, ARGV[1])
		stored[i] = 1
	end
end
return stored`)
)

// Load reads the named states in one round trip.
func (s *Limits) Load(ctx context.Context, names []string) (sharing.Snapshot, error) {
	answer, err := loadScript.Run(ctx, s.db.client, lists.Map(names, func(name string) string { return prefix + name })).StringSlice()
	if err == nil && len(answer) != 2+2*len(names) {
		err = errors.New("unexpected answer")
	}
	if err != nil {
		return sharing.Snapshot{}, kind.Wrap("load limits", err)
	}
	var numbers fields
	snapshot := sharing.Snapshot{
		Now: time.Unix(numbers.parse(answer[0]), numbers.parse(answer[1])*1000), States: make([]sharing.State, len(names)),
	}
	for i, name := range names {
		state := sharing.State{Name: name, Version: numbers.parse(answer[2+2*i])}
		if state.Version > 0 {
			state.Data = []byte(answer[3+2*i])
		}
		snapshot.States[i] = state
	}
	return snapshot, kind.Wrap("load limits", numbers.err)
}

// fields parses numbers and keeps the first error.
type fields struct{ err error }

func (f *fields) parse(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	f.err = cmp.Or(f.err, err)
	return n
}

// Swap stores the states whose version is still current, in one round trip.
func (s *Limits) Swap(ctx context.Context, states []sharing.State) ([]bool, error) {
	if len(states) == 0 {
		return nil, nil
	}
	args := []any{sharing.Retention.Milliseconds()}
	for _, state := range states {
		if err := state.Check(); err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		args = append(args, state.Version, state.Data)
	}
	answer, err := swapScript.Run(ctx, s.db.client, lists.Map(states, func(state sharing.State) string { return prefix + state.Name }), args...).BoolSlice()
	if err == nil && len(answer) != len(states) {
		err = errors.New("unexpected answer")
	}
	if err != nil {
		return nil, kind.Wrap("store limits", err)
	}
	return answer, nil
}
