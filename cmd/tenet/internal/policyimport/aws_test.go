package policyimport_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
)

// answer is a response that is an error to both sides.
type answer struct{ error }

func answerOf(status int) error {
	if status < 300 {
		return nil
	}
	return answer{tenethttp.NewStatusError(&http.Response{
		StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: &http.Request{Method: http.MethodGet},
	})}
}

func (a answer) Unwrap() error { return a.error }

func (a answer) HTTPStatusCode() int { return a.error.(*tenethttp.StatusError).StatusCode } //nolint:errorlint // made above

// script answers attempts with statuses in turn, the last one again and again, and notes when they came.
type script struct {
	statuses []int
	attempts []time.Time
}

func (s *script) next() error {
	s.attempts = append(s.attempts, time.Now())
	return answerOf(s.statuses[min(len(s.attempts), len(s.statuses))-1])
}

// sdk makes a call with the retry loop of the AWS SDK for Go.
func sdk(r *awsretry.Standard, s *script) error {
	loop := awsretry.NewAttemptMiddleware(r, func(request any) any { return request })
	_, _, err := loop.HandleFinalize(context.Background(), middleware.FinalizeInput{}, middleware.FinalizeHandlerFunc(
		func(context.Context, middleware.FinalizeInput) (out middleware.FinalizeOutput, m middleware.Metadata, err error) {
			return out, m, s.next()
		}))
	return err
}

// imported makes an executor with the policies of a shared config file, which holds the default profile.
func imported(t *testing.T, config string, budget bool) func(*script) error {
	t.Helper()
	c, err := policyimport.AWS([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if !budget {
		p := c.Policies["aws"]
		p.Retry.Budget = policy.BudgetRef{}
		c.Policies["aws"], c.Budgets = p, nil
	}
	text, err := policyfile.File{Policies: c.Policies, Budgets: c.Budgets}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	document, err := policyfile.Parse("aws.yaml", text, policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Provider: document.Set, Classes: []classify.Family{tenethttp.Classes()},
		Classifiers: map[string]classify.Classifier{tenethttp.ClassifierName: tenethttp.Classifier()},
	})
	return func(s *script) error {
		return executor.Do(context.Background(), policy.ParseKey("aws"), func(context.Context) error { return s.next() })
	}
}

func TestT7AnImportedAWSProfileMakesTheAttemptsOfTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		statuses := []int{200, 400, 403, 404, 429, 500, 500, 501, 502, 503, 503, 504}
		for range 300 {
			list := make([]int, 1+random.IntN(6))
			for i := range list {
				list[i] = statuses[random.IntN(len(statuses))]
			}
			attempts := 1 + random.IntN(5)
			ours, theirs := &script{statuses: list}, &script{statuses: list}
			err := imported(t, fmt.Sprintf("[default]\nretry_mode = standard\nmax_attempts = %d", attempts), true)(ours)
			want := sdk(awsretry.NewStandard(func(o *awsretry.StandardOptions) { o.MaxAttempts = attempts }), theirs)
			if len(ours.attempts) != len(theirs.attempts) || (err == nil) != (want == nil) {
				t.Fatalf("%v, at most %d: %d attempts, %v; the SDK: %d, %v", list, attempts, len(ours.attempts), err, len(theirs.attempts), want)
			}
		}
	})
}

// TestT7AnImportedAWSProfileBoundsRetriesAsTheSDK: in an outage the SDK's quota pays for 35 retries, and the budget for as many, and
// for those that the outage's calls earn, which the SDK credits to successes only. Both refill at a fourteenth of a retry per success.
func TestT7AnImportedAWSProfileBoundsRetriesAsTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const config = "[default]\nretry_mode = standard"
		ours, standard := imported(t, config, true), awsretry.NewStandard()
		retries := func(call func(*script) error, calls int, statuses ...int) (n int) {
			for range calls {
				s := &script{statuses: statuses}
				_ = call(s)
				n += len(s.attempts) - 1
			}
			return n
		}
		theirs := func(s *script) error { return sdk(standard, s) }
		const calls = 100
		got, want := retries(ours, calls, 503), retries(theirs, calls, 503)
		if want != 35 || got < want || got > want+calls/14 {
			t.Errorf("%d retries in an outage of %d calls; the SDK made %d", got, calls, want)
		}
		for _, call := range []func(*script) error{ours, theirs} {
			if n := retries(call, 140, 200) + retries(call, 20, 503); n < 9 || n > 12 {
				t.Errorf("140 successes paid for %d retries, want about 10", n)
			}
		}
	})
}

func TestT7AnImportedAWSProfileWaitsWithinTheBoundsOfTheSDK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const attempts = 10
		standard := awsretry.NewStandard(func(o *awsretry.StandardOptions) { o.MaxAttempts, o.RateLimiter = attempts, ratelimit.None })
		for name, call := range map[string]func(*script) error{
			"tenet":   imported(t, fmt.Sprintf("[default]\nretry_mode = standard\nmax_attempts = %d", attempts), false),
			"the SDK": func(s *script) error { return sdk(standard, s) },
		} {
			longest := make([]time.Duration, attempts-1)
			for range 200 {
				s := &script{statuses: []int{503}}
				_ = call(s)
				for i := range longest {
					longest[i] = max(longest[i], s.attempts[i+1].Sub(s.attempts[i]))
				}
			}
			for i, got := range longest {
				bound := min(50*ms<<i, 20*time.Second)
				if got > bound || got < bound*9/10 { // 200 draws without one in the last tenth: 10⁻⁹
					t.Errorf("%s: the longest wait before attempt %d is %v, want close to %v", name, i+2, got, bound)
				}
			}
		}
	})
}

func TestT7TheFormOfAnAWSConfigFile(t *testing.T) {
	got, err := policyimport.AWS([]byte("\ufeff[default] ; mine\r\nretry_mode = Standard # as before\r\nmax_attempts = 5\t; five\r\n[profile \"a b\"]\nmax_attempts = 2\n[profile c]\n  max_attempts = 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Policies) != 2 || got.Policies["aws"].Retry.MaxAttempts != 5 || got.Policies["aws-a b"].Retry.MaxAttempts != 2 {
		t.Errorf("%+v", got.Policies)
	}
	if list := fidelities(got); !slices.Contains(list, "line 7 lost") {
		t.Errorf("the setting that is indented is not reported: %q", list)
	}
	parses(t, got)
}

// TestT7ProfilesOfOneNameAreOne: the SDKs merge the sections of a profile, and prefer [profile default] to [default].
func TestT7ProfilesOfOneNameAreOne(t *testing.T) {
	got, err := policyimport.AWS([]byte("[default]\nmax_attempts = 2\n[profile default]\nmax_attempts = 6\n" +
		"[profile x]\nretry_mode = legacy\nmax_attempts = 3\n[profile y]\nmax_attempts = 4\n[profile  x]\nmax_attempts = 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	attempts := map[string]int{}
	for key, p := range got.Policies {
		attempts[key] = p.Retry.MaxAttempts
	}
	if want := map[string]int{"aws": 6, "aws-x": 7, "aws-y": 4}; !maps.Equal(attempts, want) {
		t.Errorf("max_attempts %v, want %v", attempts, want)
	}
	if list := fidelities(got); !slices.Contains(list, "default lost") || !slices.Contains(list, "profile x.retry_mode approximate") {
		t.Errorf("%q", list)
	}
}

func TestT7AFileThatIsNotAnAWSConfigIsRefusedOnce(t *testing.T) {
	for input, want := range map[string]string{
		"{\n\"a\": 1,\n\"b\": 2\n}":           "aws config: line 1: a setting stands before the first section, such as [default] (and 3 more)",
		"[default]\n\x00\n\xff\x1b\nx = 1\ny": "aws config: line 2: is not a setting, written as name = value (and 2 more)",
		"x\n[default\n[y\nz":                  "aws config: line 2: the name of a section has no end (and 1 more); line 1: a setting stands before the first section, such as [default]; line 4: is not a setting, written as name = value",
	} {
		if _, err := policyimport.AWS([]byte(input)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", input, err, want)
		}
	}
}

func TestT7AnAWSProfileHasAName(t *testing.T) {
	got, err := policyimport.AWS([]byte("[default]\nmax_attempts = 2\n[profile]\nmax_attempts = 3\n[profile '']\nmax_attempts = 4\n[dev]\nmax_attempts = 5"))
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range []string{"profile", "profile ''", "dev"} {
		if list := fidelities(got); len(got.Policies) != 1 || !slices.Contains(list, section+" lost") {
			t.Errorf("%v, %q", got.Policies, list)
		}
	}
}
