package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/tenetdev/tenet/adapter/redis"
	"github.com/tenetdev/tenet/internal/testredis"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
	"github.com/tenetdev/tenet/storetest"
)

func open(t *testing.T, url string) *redis.DB {
	t.Helper()
	db, err := redis.Open(url, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func client(t *testing.T, url string) *driver.Client {
	t.Helper()
	o, err := driver.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := driver.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestLimits(t *testing.T) {
	const databases = 16 // of a server
	free := make(chan string, databases)
	for i := range databases {
		free <- strings.TrimSuffix(url, "0") + fmt.Sprint(i) // the URL ends with database 0
	}
	var urlOf sync.Map // by store
	storetest.Limits(t, storetest.LimitsOptions{
		Open: func(t *testing.T) sharing.Store {
			url := <-free
			t.Cleanup(func() { free <- url })
			if err := client(t, url).FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			store := open(t, url).Limits()
			urlOf.Store(store, url)
			return store
		},
		Second: func(t *testing.T, first sharing.Store) sharing.Store {
			url, _ := urlOf.Load(first)
			return open(t, url.(string)).Limits()
		},
	})
}

// TestLimitsOfAServerThatStops runs the cases on a server of its own, which is shut down and started again for each outage.
func TestLimitsOfAServerThatStops(t *testing.T) {
	server, err := testredis.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	storetest.LimitsInOutages(t, storetest.LimitsOptions{
		Open: func(t *testing.T) sharing.Store {
			must(client(t, server.URL()).FlushDB(t.Context()).Err())
			return open(t, server.URL()).Limits()
		},
		Second: func(t *testing.T, _ sharing.Store) sharing.Store { return open(t, server.URL()).Limits() },
		Restart: func(t *testing.T, f func()) {
			must(server.Kill())
			f()
			must(server.Run())
		},
	})
}

// TestB2AServerThatHangsIsAway: the server's connections stay open, but nothing answers.
func TestB2AServerThatHangsIsAway(t *testing.T) {
	server, err := testredis.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	store := open(t, server.URL()).Limits()
	if _, err := store.Load(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := store.Load(ctx, []string{"a"}); err == nil || time.Since(begin) > 2*time.Second {
		t.Errorf("a hanging server answered with %v after %v", err, time.Since(begin))
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(t.Context(), []string{"a"}); err != nil {
		t.Errorf("after the server went on: %v", err)
	}
}

func TestStatesExpire(t *testing.T) {
	c := client(t, url)
	if err := c.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	store := open(t, url).Limits()
	if _, err := store.Swap(t.Context(), []sharing.State{{Name: "a", Data: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	if left, err := c.PTTL(t.Context(), keys[0]).Result(); err != nil || left <= sharing.Retention-time.Minute || left > sharing.Retention {
		t.Errorf("the state expires in %v, %v", left, err)
	}
}

func TestOpenRefusesWhatIsNotAURLAndShowsNoPassword(t *testing.T) {
	for _, url := range []string{"", "localhost", "http://:secret@host", "redis://:secret@host:port:1/x", "redis://:secret@host/0\n", "redis://:secret@host/zero"} {
		if _, err := redis.Open(url, redis.Options{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestC2ClassesOfErrorsFromRedis(t *testing.T) {
	ctx := t.Context()
	c := client(t, url)
	closed := client(t, url)
	_ = closed.Close()
	_, wrongType := c.Eval(ctx, "redis.call('SET', KEYS[1], 'x') return redis.call('HGET', KEYS[1], 'f')", []string{"k"}).Result()
	_, loading := c.Eval(ctx, "return redis.error_reply('LOADING the data set')", nil).Result()
	_, missing := c.Get(ctx, "missing").Result()
	for name, tt := range map[string]struct {
		err  error
		want policy.Class
	}{
		"a wrong type":       {wrongType, policy.ClassRedis},
		"a loading server":   {loading, policy.ClassRedisUnavailable},
		"a closed client":    {closed.Ping(ctx).Err(), policy.ClassRedisConnection},
		"no value":           {missing, ""},
		"an unrelated error": {errors.New("LOADING"), ""},
	} {
		if got := redis.Classes().Of(tt.err); tt.err == nil || got != tt.want {
			t.Errorf("%s: %q, want %q: %v", name, got, tt.want, tt.err)
		}
	}
}
