package tenettest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/tenettest"
)

var sendEmail = job.Define[string]("email:send", job.WithAttempts(3))

func TestJ3JobsRunUntilNoneIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := tenettest.NewJobs(t)
		var sent []string
		sendEmail.Handle(jobs.Worker, func(_ context.Context, j job.Job[string]) error {
			if j.Payload == "busy" {
				return errors.New("mail server busy")
			}
			sent = append(sent, j.Payload)
			if j.Payload == "first" {
				_, err := sendEmail.Enqueue(t.Context(), jobs.Client, "follows", job.WithDelay(time.Hour))
				return err
			}
			return nil
		})
		enqueue := func(payload string, options ...job.EnqueueOption) {
			if _, err := sendEmail.Enqueue(t.Context(), jobs.Client, payload, options...); err != nil {
				t.Fatal(err)
			}
		}
		enqueue("first")
		enqueue("busy")
		enqueue("elsewhere", job.WithQueue("mail"))
		start := time.Now()
		var story []string
		for _, r := range jobs.Run() {
			story = append(story, fmt.Sprintf("%s %s x%d", r.Payload, r.State, len(r.History)))
		}
		want := []string{`"first" completed x1`, `"busy" dead x3`, `"elsewhere" ready x0`, `"follows" completed x1`}
		if diff := cmp.Diff(want, story); diff != "" {
			t.Error(diff)
		}
		if passed := time.Since(start); passed < time.Hour || passed > time.Hour+time.Minute {
			t.Errorf("%v passed", passed)
		}
		enqueue("again")
		jobs.Run()
		if diff := cmp.Diff([]string{"first", "follows", "again"}, sent); diff != "" {
			t.Error(diff)
		}
	})
}
