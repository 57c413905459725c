package tenetgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tenetgrpc "github.com/tenetdev/tenet/adapter/grpc"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

type (
	output       = grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]
	input        = grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]
	duplex       = grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]
	outputQuery  = grpc_testing.StreamingOutputCallRequest
	inputMessage = grpc_testing.StreamingInputCallRequest
)

// collect receives until the stream ends.
func collect(s grpc.ServerStreamingClient[grpc_testing.StreamingOutputCallResponse]) (texts []string, err error) {
	for {
		m, err := s.Recv()
		if err == io.EOF {
			return texts, nil
		}
		if err != nil {
			return texts, err
		}
		texts = append(texts, string(m.Payload.Body))
	}
}

func TestServerStreamIsRepeatedUntilItsFirstMessage(t *testing.T) {
	tests := map[string]struct {
		output func(n int, req *outputQuery, s output) error
		want   []string
		code   codes.Code
		calls  int
	}{
		"failures before the first message": {func(n int, req *outputQuery, s output) error {
			if n < 3 {
				return status.Error(codes.Unavailable, "busy")
			}
			s.Send(chunk(string(req.Payload.Body)))
			return s.Send(chunk("b"))
		}, []string{"question", "b"}, codes.OK, 3},
		"a failure after the first message": {func(n int, _ *outputQuery, s output) error {
			s.Send(chunk("a"))
			return status.Error(codes.Unavailable, "broke off")
		}, []string{"a"}, codes.Unavailable, 1},
		"headers do not establish a stream": {func(n int, _ *outputQuery, s output) error {
			s.SendHeader(metadata.Pairs("k", "v"))
			if n < 2 {
				return status.Error(codes.Unavailable, "busy")
			}
			return s.Send(chunk("a"))
		}, []string{"a"}, codes.OK, 2},
		"an empty stream": {func(int, *outputQuery, output) error { return nil }, nil, codes.OK, 1},
		"refused":         {func(int, *outputQuery, output) error { return status.Error(codes.NotFound, "") }, nil, codes.NotFound, 1},
		"exhausted":       {func(int, *outputQuery, output) error { return status.Error(codes.Unavailable, "") }, nil, codes.Unavailable, 3},
		"pushed back": {func(_ int, _ *outputQuery, s output) error {
			s.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "-1"))
			return status.Error(codes.Unavailable, "")
		}, nil, codes.Unavailable, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &service{output: tt.output}
			e, _ := recording(t)
			var attempts []context.Context
			client, stop := connect(t, s, tenetgrpc.Options{Executor: e}, grpc.WithDisableRetry(), grpc.WithChainStreamInterceptor(
				func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					attempts = append(attempts, ctx)
					return streamer(ctx, desc, cc, method, opts...)
				}))
			defer stop()
			stream, err := client.StreamingOutputCall(t.Context(), &outputQuery{Payload: text("question")})
			if err != nil {
				t.Fatal(err)
			}
			got, err := collect(stream)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if status.Code(err) != tt.code || s.count() != tt.calls {
				t.Errorf("%v after %d attempts, want %s after %d", err, s.count(), tt.code, tt.calls)
			}
			for i, ctx := range attempts {
				if ctx.Err() == nil {
					t.Errorf("the context of attempt %d outlives the stream", i+1)
				}
			}
			if _, again := stream.Recv(); again == nil {
				t.Error("a stream that ended returned a message")
			}
		})
	}
}

func TestServerStreamHeaders(t *testing.T) {
	t.Run("arrive", func(t *testing.T) {
		s := &service{output: func(n int, _ *outputQuery, s output) error {
			if n < 2 {
				return status.Error(codes.Unavailable, "busy")
			}
			s.SendHeader(metadata.Pairs("k", "v"))
			s.SetTrailer(metadata.Pairs("k", "end"))
			return s.Send(chunk("a"))
		}}
		e, _ := recording(t)
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e}, grpc.WithDisableRetry())
		defer stop()
		stream, err := client.StreamingOutputCall(t.Context(), &outputQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if stream.Trailer() != nil || stream.Context() != t.Context() {
			t.Error("a stream that is not established has a trailer or its own context")
		}
		header, err := stream.Header()
		if err != nil || header.Get("k")[0] != "v" || s.count() != 2 {
			t.Errorf("header %v, %v after %d attempts", header, err, s.count())
		}
		got, err := collect(stream)
		if diff := cmp.Diff([]string{"a"}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if stream.Trailer().Get("k")[0] != "end" || stream.Context() == t.Context() {
			t.Errorf("trailer %v", stream.Trailer())
		}
	})
	t.Run("never arrive", func(t *testing.T) {
		s := &service{output: func(int, *outputQuery, output) error { return status.Error(codes.Unavailable, "busy") }}
		e, _ := recording(t)
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e}, grpc.WithDisableRetry())
		defer stop()
		stream, err := client.StreamingOutputCall(t.Context(), &outputQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); status.Code(err) != codes.Unavailable || s.count() != 3 {
			t.Errorf("%v after %d attempts", err, s.count())
		}
	})
}

func TestServerStreamTakesOneRequest(t *testing.T) {
	e, _ := recording(t)
	intercept := tenetgrpc.StreamClientInterceptor(tenetgrpc.Options{Executor: e})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := intercept(ctx, &grpc.StreamDesc{ServerStreams: true}, nil, "/s/m", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(&outputQuery{}); err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(&outputQuery{}); status.Code(err) != codes.Internal {
		t.Errorf("a second request: %v", err)
	}
	cancel()
	if err := stream.RecvMsg(&outputQuery{}); status.Code(err) != codes.Canceled {
		t.Errorf("receiving before the request is complete: %v", err)
	}
	stream.CloseSend()
	if err := stream.CloseSend(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// TestStreamsOutliveTheTimeouts checks that the policy's timeouts bound only the wait for the first message.
func TestStreamsOutliveTheTimeouts(t *testing.T) {
	timeouts := func(p *policy.Policy) {
		p.Retry.TimeoutPerAttempt, p.Retry.OverallTimeout = 300*time.Millisecond, 2*time.Second
	}
	t.Run("from the server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &service{output: func(n int, _ *outputQuery, s output) error {
				if n == 1 {
					<-s.Context().Done() // a hang: the attempt's timeout ends it
					return s.Context().Err()
				}
				for range 10 {
					if err := s.Send(chunk("tick")); err != nil {
						return err
					}
					time.Sleep(time.Minute)
				}
				return s.Context().Err()
			}}
			client, stop := connect(t, s, tenetgrpc.Options{Executor: retry.NewExecutor(options(t, fixed(timeouts)))})
			defer stop()
			stream, err := client.StreamingOutputCall(t.Context(), &outputQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := collect(stream); len(got) != 10 || err != nil || s.count() != 2 {
				t.Errorf("%d messages, %v, %d attempts", len(got), err, s.count())
			}
		})
	})
	t.Run("both ways", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &service{duplex: func(_ int, s duplex) error {
				for {
					m, err := s.Recv()
					if err == io.EOF {
						return s.Context().Err()
					}
					if err != nil {
						return err
					}
					if err := s.Send(chunk(string(m.Payload.Body))); err != nil {
						return err
					}
				}
			}}
			client, stop := connect(t, s, tenetgrpc.Options{Executor: retry.NewExecutor(options(t, fixed(timeouts)))})
			defer stop()
			stream, err := client.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				time.Sleep(time.Minute)
				if err := stream.Send(&outputQuery{Payload: text("ping")}); err != nil {
					t.Fatal(err)
				}
				if m, err := stream.Recv(); err != nil || string(m.Payload.Body) != "ping" {
					t.Fatal(m, err)
				}
			}
			stream.CloseSend()
			if _, err := stream.Recv(); err != io.EOF {
				t.Errorf("the stream ended with %v", err)
			}
		})
	})
}

// lastMoment is a stream whose first message arrives as its context ends.
type lastMoment struct{ grpc.ClientStream }

func (s lastMoment) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	<-s.Context().Done()
	return err
}

func TestAStreamThatBeginsAsItsAttemptEndsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{output: func(_ int, _ *outputQuery, s output) error {
			s.Send(chunk("a"))
			select {
			case <-time.After(time.Minute):
			case <-s.Context().Done():
			}
			return s.Send(chunk("b"))
		}}
		e, _ := recording(t, func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = time.Second })
		attempts := 0
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e}, grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				opened, err := streamer(ctx, desc, cc, method, opts...)
				if attempts++; attempts == 1 && err == nil {
					opened = lastMoment{opened}
				}
				return opened, err
			}))
		defer stop()
		stream, err := client.StreamingOutputCall(t.Context(), &outputQuery{Payload: text("question")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(stream)
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || err != nil {
			t.Errorf("%v after %d attempts %s", err, attempts, diff)
		}
	})
}

func TestCallersDeadlineReachesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Duration, 1)
		s := &service{duplex: func(_ int, s duplex) error {
			deadline, _ := s.Context().Deadline()
			left <- time.Until(deadline)
			<-s.Context().Done()
			return s.Context().Err()
		}}
		e := retry.NewExecutor(options(t, fixed(func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = 300 * time.Millisecond })))
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		stream, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := <-left; got != time.Hour {
			t.Errorf("the server sees %s, want the caller's hour", got)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

func TestOpeningAStreamIsRepeated(t *testing.T) {
	s := &service{input: func(_ int, s input) error {
		size := 0
		for {
			m, err := s.Recv()
			if err == io.EOF {
				return s.SendAndClose(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
			}
			if err != nil {
				return err
			}
			size += len(m.Payload.Body)
		}
	}}
	e, waits := recording(t)
	broken := 2
	var attempt context.Context
	client, stop := connect(t, s, tenetgrpc.Options{Executor: e}, grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if broken--; broken >= 0 {
				return nil, status.Error(codes.Unavailable, "no connection")
			}
			attempt = ctx
			return streamer(ctx, desc, cc, method, opts...)
		}))
	defer stop()
	stream, err := client.StreamingInputCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(&inputMessage{Payload: text("1234")}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := stream.CloseAndRecv()
	if err != nil || got.AggregatedPayloadSize != 12 || len(waits.All()) != 2 {
		t.Errorf("%v, %v after %v", got, err, waits.All())
	}
	if attempt.Err() == nil {
		t.Error("the attempt's context outlives the stream")
	}
	broken = 100
	if _, err := client.StreamingInputCall(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	} else if failure, ok := errors.AsType[*retry.Error](err); !ok || failure.Attempts != 3 {
		t.Errorf("error %v, want a *retry.Error of 3 attempts", err)
	}
}

func TestR9HedgedServerStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		s := &service{output: func(n int, _ *outputQuery, s output) error {
			if n == 1 {
				<-s.Context().Done()
				close(gone)
				return s.Context().Err()
			}
			s.Send(chunk("a"))
			select {
			case <-time.After(time.Minute):
			case <-s.Context().Done():
			}
			return s.Send(chunk("b"))
		}}
		e := retry.NewExecutor(options(t, fixed(func(p *policy.Policy) {
			p.Hedge = policy.Hedge{Enabled: true, HedgeDelay: 100 * time.Millisecond}
		})))
		client, stop := connect(t, s, tenetgrpc.Options{Executor: e})
		defer stop()
		stream, err := client.StreamingOutputCall(t.Context(), &outputQuery{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(stream)
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		<-gone
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
