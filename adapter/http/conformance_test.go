package tenethttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/internal/testguard"
)

func TestIGuardsMeanTheSameForServers(t *testing.T) {
	testguard.Run(t, testguard.Entrance{Results: true, NeedsResult: true, Ask: func(ctx context.Context, _ *testing.T, c testguard.Call) testguard.Answer {
		handler := tenethttp.Idempotent(c.Guard, tenethttp.IdempotencyOptions{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			result, err := c.Op(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_, _ = w.Write([]byte(result))
		}))
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", nil)
		r.Header.Set(tenethttp.HeaderIdempotencyKey, c.Key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
		return testguard.Answer{
			OK: w.Code == http.StatusOK, Status: w.Code, Result: w.Body.String(), RetryAfter: time.Duration(seconds) * time.Second,
		}
	}})
}
