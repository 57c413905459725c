package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
)

// Name is the name of the [Classifier] in documents.
const Name = "exit"

// Codes is a set of exit codes. The zero value holds every code but 0.
type Codes struct{ ranges []codeRange }

type codeRange struct{ low, high int }

const maxCode = 255

// ParseCodes reads a list of exit codes and ranges of them, such as "1,75,100-110". Codes lie between 1 and 255. An empty
// list is the zero value.
func ParseCodes(list string) (Codes, error) {
	var codes Codes
	if strings.TrimSpace(list) == "" {
		return codes, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		r, err := parseRange(low, high)
		if err != nil {
			return Codes{}, fmt.Errorf("%q: %w; write a list such as 1,75,100-110", strings.TrimSpace(part), err)
		}
		codes.ranges = append(codes.ranges, r)
	}
	return codes, nil
}

func parseRange(low, high string) (codeRange, error) {
	first, lowErr := strconv.Atoi(strings.TrimSpace(low))
	last, highErr := strconv.Atoi(strings.TrimSpace(high))
	switch {
	case lowErr != nil || highErr != nil:
		return codeRange{}, errors.New("not an exit code")
	case first < 1 || last > maxCode:
		return codeRange{}, fmt.Errorf("exit codes of failures are between 1 and %d", maxCode)
	case first > last:
		return codeRange{}, fmt.Errorf("%d is above %d", first, last)
	}
	return codeRange{first, last}, nil
}

// Has reports whether the set holds the code.
func (c Codes) Has(code int) bool {
	if len(c.ranges) == 0 {
		return code != 0
	}
	return slices.ContainsFunc(c.ranges, func(r codeRange) bool { return r.low <= code && code <= r.high })
}

// codeBrokenPipe is the exit code after a write to a pipe without a reader, also as shells report it. Another attempt would have
// no reader either.
const codeBrokenPipe = codeSignal + int(syscall.SIGPIPE)

// Classifier retries attempts that timed out or ended with one of the codes. Another code is the program's final answer, and
// breakers do not count it as a failure. SIGPIPE is retried only if its code is listed. The code of a program that a signal
// ended is 128 plus the signal's number.
func Classifier(retried Codes) classify.Classifier {
	return classify.Func(func(_ any, err error) classify.Outcome {
		if err == nil {
			return classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}
		}
		if _, ok := errors.AsType[*TimeoutError](err); ok {
			return classify.Outcome{
				Kind: classify.Retryable, Category: classify.CategoryTimeout,
				Class: policy.ClassTimeout, Reason: policy.ReasonAttemptTimeout,
			}
		}
		exit, ok := errors.AsType[*ExitError](err)
		if !ok {
			return classify.Default(nil, err)
		}
		o := classify.Outcome{
			Kind: classify.Retryable, Category: classify.CategorySystem, Class: policy.ClassExit, Reason: policy.ReasonExitCode,
			Attributes: map[string]string{"exit_code": strconv.Itoa(exit.Code)},
		}
		if !retried.Has(exit.Code) || exit.Code == codeBrokenPipe && len(retried.ranges) == 0 {
			o.Kind, o.Category = classify.NonRetryable, classify.CategoryBusiness
		}
		return o
	})
}

// Classes returns the family of the class exit: attempts that ended with a code other than 0.
func Classes() classify.Family {
	return classify.Custom(policy.ClassExit, "", classify.As[*ExitError]())
}
