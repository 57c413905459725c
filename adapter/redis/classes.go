package redis

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Classes returns the family of classes redis_unavailable and redis_connection within redis, for retry.ExecutorOptions.Classes. It
// knows the errors of go-redis:
//
//   - redis_unavailable: the server cannot run commands now (LOADING, MASTERDOWN, CLUSTERDOWN, TRYAGAIN, READONLY, BUSY)
//   - redis_connection: the client is closed or has no free connection, or the server takes no more
//   - redis: every other error that the server reported
//
// The answer redis.Nil is not an error of a class. A connection that breaks is a network error of class eof or connection_reset.
func Classes() classify.Family {
	return classify.Family{
		Names: []policy.Class{policy.ClassRedis, policy.ClassRedisUnavailable, policy.ClassRedisConnection},
		Of:    classOf,
	}
}

func classOf(err error) policy.Class {
	if errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return policy.ClassRedisConnection
	}
	reported, ok := errors.AsType[redis.Error](err)
	if !ok || errors.Is(err, redis.Nil) || errors.Is(err, redis.TxFailedErr) {
		return ""
	}
	text := reported.Error()
	switch code, _, _ := strings.Cut(text, " "); {
	case code == "LOADING", code == "MASTERDOWN", code == "CLUSTERDOWN", code == "TRYAGAIN", code == "READONLY", code == "BUSY":
		return policy.ClassRedisUnavailable
	case strings.HasPrefix(text, "ERR max number of clients"):
		return policy.ClassRedisConnection
	}
	return policy.ClassRedis
}
