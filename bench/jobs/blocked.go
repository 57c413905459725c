package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// blockedPerKey is how many jobs wait behind the one that runs.
const blockedPerKey = 10

// block fills a store of Tenet whose limit lets one job of a key run at a time: a tenth of so many jobs, each of another key, run for
// longer than the measurement, and the given number waits for them. Then it adds jobs of other keys, which can be claimed.
func block(ctx context.Context, system measure.System, waiting int) error {
	s := system.(*tenetJobs)
	err := s.store.(job.Limiter).SetLimit(ctx, job.LimitSetting{
		LimitName: job.LimitName{Queue: job.DefaultQueue, Name: "by-key"},
		Limit:     &policy.JobLimit{Key: []string{"meta.key"}, Concurrency: 1},
	})
	if err != nil {
		return err
	}
	running := waiting / blockedPerKey
	if s.keys = running; waiting > 0 {
		if err := measure.Fill(ctx, s, running+waiting); err != nil {
			return err
		}
	}
	if err := s.ready(ctx, running); err != nil {
		return err
	}
	for taken := 0; taken < running; {
		n, err := s.Claim(ctx, 1000)
		if err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("%d of %d jobs claimed", taken, running))
		}
		taken += n
	}
	free := make([]job.Request, claimed*(warmClaims+timedClaims))
	for i := range free {
		free[i] = job.Request{Type: jobType, Payload: payload{N: i}, Meta: map[string]string{"key": "free " + strconv.Itoa(i)}}
	}
	if _, err := s.client.EnqueueMany(ctx, free); err != nil {
		return err
	}
	if err := s.ready(ctx, len(free)); err != nil {
		return err
	}
	return s.settle(ctx)
}

// ready waits until so many jobs are ready.
func (s *tenetJobs) ready(ctx context.Context, want int) error {
	for {
		if _, err := s.store.Maintain(ctx, job.Maintenance{Limit: 1000}); err != nil {
			return err
		}
		stats, err := s.store.(job.Admin).Stats(ctx)
		if err != nil {
			return err
		}
		q := stats[job.DefaultQueue]
		if q.Ready == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d jobs are ready: %w", q.Ready, want, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
