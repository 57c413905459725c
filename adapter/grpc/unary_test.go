package tenetgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

type (
	request  = grpc_testing.SimpleRequest
	response = grpc_testing.SimpleResponse
)

func TestUnaryFollowsTheTable(t *testing.T) {
	for code, row := range table {
		for _, classifier := range []string{"", tenetgrpc.ClassifierName} {
			t.Run(code.String()+" "+classifier, func(t *testing.T) {
				s := &service{unary: func(context.Context, int, *request) (*response, error) {
					return nil, status.Error(code, "why")
				}}
				e, _ := recording(t, func(p *policy.Policy) { p.Retry.ClassifierName = classifier })
				client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
				defer stop()
				ctx, capture := observe.RecordTimeline(t.Context())
				_, err := client.UnaryCall(ctx, &request{})
				want := 1
				if row.kind == classify.Retryable && code != codes.DeadlineExceeded { // here the server returns this code itself
					want = 3
				}
				if s.count() != want {
					t.Errorf("%d attempts, want %d", s.count(), want)
				}
				if got, ok := status.FromError(err); !ok || got.Code() != code || got.Message() != "why" {
					t.Errorf("status %v, want %s: why", got, code)
				}
				failure, ok := errors.AsType[*retry.Error](err)
				if !ok || failure.Attempts != want || status.Code(fmt.Errorf("users: %w", err)) != code {
					t.Errorf("error %#v, want a *retry.Error inside that keeps its code", err)
				}
				timeline, _ := capture.Timeline()
				if business := timeline.Attempts[0].Outcome.Category == classify.CategoryBusiness; business != (row.category == classify.CategoryBusiness) {
					t.Errorf("business: %t", business)
				}
			})
		}
	}
}

func TestUnarySucceedsAfterRetries(t *testing.T) {
	s := &service{unary: func(ctx context.Context, n int, req *request) (*response, error) {
		grpc.SetHeader(ctx, metadata.Pairs("n", fmt.Sprint(n)))
		grpc.SetTrailer(ctx, metadata.Pairs("n", fmt.Sprint(n)))
		if n < 3 {
			return nil, status.Error(codes.Unavailable, "busy")
		}
		return &response{Payload: req.Payload}, nil
	}}
	e, waits := recording(t)
	client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
	defer stop()
	var header, trailer metadata.MD
	var from peer.Peer
	got, err := client.UnaryCall(t.Context(), &request{Payload: text("hello")}, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&from))
	if err != nil || string(got.Payload.Body) != "hello" {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff([]time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, waits.All()); diff != "" {
		t.Error(diff)
	}
	if header.Get("n")[0] != "3" || trailer.Get("n")[0] != "3" || from.Addr == nil {
		t.Errorf("header %v, trailer %v, peer %v; want those of the third attempt", header, trailer, from)
	}
}

func TestD5Pushback(t *testing.T) {
	second := []time.Duration{time.Second, time.Second}
	tests := map[string]struct {
		err     error
		trailer []string
		want    []time.Duration // waits
		reason  policy.Reason
	}{
		"RetryInfo":                {retryInfo(t, codes.Unavailable, time.Second), nil, second, policy.ReasonAttemptsExhausted},
		"RetryInfo, exhausted":     {retryInfo(t, codes.ResourceExhausted, time.Second), nil, second, policy.ReasonAttemptsExhausted},
		"RetryInfo, negative":      {retryInfo(t, codes.Unavailable, -time.Second), nil, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, policy.ReasonAttemptsExhausted},
		"RetryInfo, too long":      {retryInfo(t, codes.Unavailable, time.Hour), nil, nil, policy.ReasonPushbackTooLong},
		"trailer":                  {status.Error(codes.Unavailable, ""), []string{"1000"}, second, policy.ReasonAttemptsExhausted},
		"trailer, the longer wins": {retryInfo(t, codes.Unavailable, 200*time.Millisecond), []string{"1000"}, second, policy.ReasonAttemptsExhausted},
		"detail, the longer wins":  {retryInfo(t, codes.Unavailable, time.Second), []string{"200"}, second, policy.ReasonAttemptsExhausted},
		"trailer, 0":               {status.Error(codes.Unavailable, ""), []string{"0"}, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, policy.ReasonAttemptsExhausted},
		"trailer, negative":        {status.Error(codes.Unavailable, ""), []string{"-1"}, nil, policy.ReasonNonRetryable},
		"trailer, unreadable":      {status.Error(codes.Unavailable, ""), []string{"soon"}, nil, policy.ReasonNonRetryable},
		"trailer, twice":           {status.Error(codes.Unavailable, ""), []string{"1", "2"}, nil, policy.ReasonNonRetryable},
		"trailer, endless":         {status.Error(codes.Unavailable, ""), []string{"9223372036854775807"}, nil, policy.ReasonPushbackTooLong},
		"trailer on a final code":  {status.Error(codes.NotFound, ""), []string{"1000"}, nil, policy.ReasonNonRetryable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &service{unary: func(ctx context.Context, _ int, _ *request) (*response, error) {
				for _, v := range tt.trailer {
					grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", v))
				}
				return nil, tt.err
			}}
			e, waits := recording(t)
			client, stop := connect(t, s, tenetgrpc.Options{Executor: e}, grpc.WithDisableRetry())
			defer stop()
			_, err := client.UnaryCall(t.Context(), &request{})
			if failure, ok := errors.AsType[*retry.Error](err); !ok || failure.Reason != tt.reason {
				t.Errorf("error %v, want %s", err, tt.reason)
			}
			if diff := cmp.Diff(tt.want, waits.All()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAttemptTimeoutIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, n int, _ *request) (*response, error) {
			if n < 3 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &response{}, nil
		}}
		e := retry.NewExecutor(options(t, fixed(func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = 300 * time.Millisecond })))
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
		defer stop()
		start := time.Now()
		if _, err := client.UnaryCall(t.Context(), &request{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 620*time.Millisecond {
			t.Errorf("took %s, want two timeouts and two waits", took)
		}
	})
}

func TestStatusOfCallsWithoutAResponse(t *testing.T) {
	dead := &service{unary: func(context.Context, int, *request) (*response, error) {
		return nil, status.Error(codes.Unavailable, "down")
	}}
	breaker := func(p *policy.Policy) {
		p.Retry.MaxAttempts = 1
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 1}
	}
	e, _ := recording(t, breaker)
	client, stop := connect(t, dead, tenetgrpc.Options{Executor: e})
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.UnaryCall(ctx, &request{}); status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	if _, err := client.UnaryCall(late, &request{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("too late: %v", err)
	}
	client.UnaryCall(t.Context(), &request{})
	if _, err := client.UnaryCall(t.Context(), &request{}); status.Code(err) != codes.Unavailable || !errors.Is(err, retry.ErrCircuitOpen) || dead.count() != 1 {
		t.Errorf("open circuit: %v after %d attempts", err, dead.count())
	}
}

func TestR11BusinessCodesKeepTheBreakerClosed(t *testing.T) {
	s := &service{unary: func(context.Context, int, *request) (*response, error) {
		return nil, status.Error(codes.NotFound, "nobody")
	}}
	e, _ := recording(t, func(p *policy.Policy) {
		p.Circuit = policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2}
	})
	client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
	defer stop()
	for range 5 {
		if _, err := client.UnaryCall(t.Context(), &request{}); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}
}

func TestRetryOnNarrowsByCode(t *testing.T) {
	for code, want := range map[codes.Code]int{codes.Unavailable: 3, codes.Aborted: 1} {
		s := &service{unary: func(context.Context, int, *request) (*response, error) { return nil, status.Error(code, "") }}
		e, _ := recording(t, func(p *policy.Policy) { p.Retry.RetryOn = []policy.Class{"grpc_unavailable"} })
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
		client.UnaryCall(t.Context(), &request{})
		if s.count() != want {
			t.Errorf("%s: %d attempts, want %d", code, s.count(), want)
		}
		stop()
	}
}

// TestR9HedgesDoNotShareTheReply checks that the primary decodes into its own message while the caller uses the hedge's.
func TestR9HedgesDoNotShareTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, n int, _ *request) (*response, error) {
			grpc.SetHeader(ctx, metadata.Pairs("n", fmt.Sprint(n)))
			if n == 1 {
				<-ctx.Done()
				return &response{Payload: text("slow")}, nil
			}
			return &response{Payload: text("fast")}, nil
		}}
		e := retry.NewExecutor(options(t, fixed(func(p *policy.Policy) {
			p.Hedge = policy.Hedge{Enabled: true, HedgeDelay: 100 * time.Millisecond}
		})))
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
		defer stop()
		var header metadata.MD
		got, err := client.UnaryCall(t.Context(), &request{}, grpc.Header(&header))
		if err != nil || string(got.Payload.Body) != "fast" || header.Get("n")[0] != "2" {
			t.Error(got, err, header)
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestR9TrailerOfTheAttemptThatDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{unary: func(ctx context.Context, n int, _ *request) (*response, error) {
			grpc.SetTrailer(ctx, metadata.Pairs("n", fmt.Sprint(n)))
			time.Sleep(150 * time.Millisecond)
			if n == 1 {
				return nil, status.Error(codes.NotFound, "nobody")
			}
			return nil, status.Error(codes.Unavailable, "busy")
		}}
		e := retry.NewExecutor(options(t, fixed(func(p *policy.Policy) {
			p.Hedge = policy.Hedge{Enabled: true, HedgeDelay: 100 * time.Millisecond}
		})))
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
		defer stop()
		var trailer metadata.MD
		_, err := client.UnaryCall(t.Context(), &request{}, grpc.Trailer(&trailer))
		if status.Code(err) != codes.NotFound || trailer.Get("n")[0] != "1" || s.count() != 2 {
			t.Errorf("%v with trailer %v after %d attempts, want NotFound with that of the first", err, trailer, s.count())
		}
	})
}

func TestReplyIsReplaced(t *testing.T) {
	e, _ := recording(t)
	intercept := tenetgrpc.UnaryClientInterceptor(tenetgrpc.Options{Executor: e})
	got := &response{Username: "old"}
	err := intercept(t.Context(), "/s/m", nil, got, nil, func(_ context.Context, _ string, _, into any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		into.(*response).Hostname = "new"
		return nil
	})
	if err != nil || got.Username != "" || got.Hostname != "new" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestMessagesOfOtherCodecs(t *testing.T) {
	type reply struct{ Text string }
	e, _ := recording(t)
	intercept := tenetgrpc.UnaryClientInterceptor(tenetgrpc.Options{Executor: e})
	var got reply
	calls := 0
	err := intercept(t.Context(), "/s/m", nil, &got, nil, func(_ context.Context, _ string, _, into any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		if into == any(&got) {
			t.Error("an attempt writes into the caller's message")
		}
		if calls++; calls == 1 {
			into.(*reply).Text = "half"
			return status.Error(codes.Unavailable, "")
		}
		into.(*reply).Text += "whole"
		return nil
	})
	if err != nil || got.Text != "whole" {
		t.Errorf("got %q, %v", got.Text, err)
	}
}

func TestMethodKeys(t *testing.T) {
	for method, want := range map[string]string{
		"/users.v1.Users/Get": "users.v1.Users.Get",
		"/Users/Get":          "Users.Get",
		"Users/Get":           "Users.Get",
	} {
		if got := tenetgrpc.MethodKey(method); got != policy.ParseKey(want) {
			t.Errorf("key of %s is %#v, want the key that a document writes as %s", method, got, want)
		}
	}
	o := options(t, fixed())
	var seen policy.Key
	o.Observer = observe.Func(func(_ context.Context, e *observe.Event) { seen = e.Work.Key })
	intercept := tenetgrpc.UnaryClientInterceptor(tenetgrpc.Options{
		Executor: retry.NewExecutor(o), Key: func(string) policy.Key { return policy.ParseKey("own.Key") },
	})
	var into response
	err := intercept(t.Context(), "/s/m", nil, &into, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
	if err != nil || seen.String() != "own.Key" {
		t.Errorf("key %s, %v", seen, err)
	}
}
