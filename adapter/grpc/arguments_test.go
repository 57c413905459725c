package tenetgrpc_test

import (
	"testing"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	testargument.Refused(t, map[string]func() error{
		`rpc error: code = Internal desc = tenetgrpc: /s/M: the reply is nil`: func() error {
			return tenetgrpc.UnaryClientInterceptor(tenetgrpc.Options{})(t.Context(), "/s/M", nil, nil, nil, nil)
		},
	})
}
