package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// within makes a runner that measures a system in this process.
func within(open opener) runner {
	return func(ctx context.Context, env *environment, t measure.Task) (Outcome, error) {
		s, err := open(ctx, env)
		if err != nil {
			return Outcome{}, err
		}
		n, err := t.Run(ctx, s, env.busy)
		return Outcome{Numbers: n}, err
	}
}

// remote measures River on SQLite in a separate process.
func remote(tuned bool) runner {
	return func(ctx context.Context, env *environment, t measure.Task) (Outcome, error) {
		program, err := env.build(ctx)
		if err != nil {
			return Outcome{}, err
		}
		path, remove, err := env.file()
		if err != nil {
			return Outcome{}, err
		}
		request, err := json.Marshal(struct {
			Task  measure.Task
			Path  string
			Tuned bool
		}{t, path, tuned})
		if err != nil {
			return Outcome{}, err
		}
		var out, complaint bytes.Buffer
		cmd := exec.CommandContext(ctx, program)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), &out, &complaint
		if err := cmd.Run(); err != nil {
			return Outcome{}, errors.Join(fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String())), remove())
		}
		var answer struct {
			Numbers  measure.Numbers
			Versions []string
		}
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
			return Outcome{}, errors.Join(err, remove())
		}
		env.learn(answer.Versions)
		return Outcome{Numbers: answer.Numbers}, remove()
	}
}

// ahead is the number of enqueued jobs that have not run beside a long-open transaction.
const ahead = 50_000

// besideTransaction runs jobs while a long-open transaction prevents vacuuming, and counts the dead rows.
func besideTransaction(open opener) runner {
	return func(ctx context.Context, env *environment, t measure.Task) (out Outcome, err error) {
		s, err := open(ctx, env)
		if err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		conn, err := pgx.Connect(ctx, s.(interface{ Address() string }).Address())
		if err != nil {
			return out, err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return out, err
		}
		if _, err := tx.Exec(ctx, `SELECT 1`); err != nil { // takes the snapshot
			return out, err
		}
		if out.Numbers, err = flow(ctx, s, t.Jobs); err != nil {
			return out, err
		}
		out.Dead, out.Size, err = bloat(ctx, conn.Config().ConnString())
		return out, errors.Join(err, tx.Rollback(ctx))
	}
}

// flow enqueues jobs while the worker runs them.
func flow(ctx context.Context, s measure.System, jobs int) (n measure.Numbers, err error) {
	var ran atomic.Int64
	done := make(chan struct{})
	begin := time.Now()
	stop, err := s.Work(ctx, func() {
		if ran.Add(1) == int64(jobs) {
			close(done)
		}
	})
	if err != nil {
		return n, err
	}
	const chunk = 10_000
	for sent := 0; sent < jobs && err == nil; {
		if sent-int(ran.Load()) > ahead-chunk {
			time.Sleep(time.Millisecond)
			err = ctx.Err()
			continue
		}
		size := min(chunk, jobs-sent)
		err = s.InsertMany(ctx, size)
		sent += size
	}
	if err == nil {
		err = measure.Progress(ctx, done, &ran)
	}
	err = errors.Join(err, stop())
	return measure.Numbers{Jobs: int(ran.Load()), Took: time.Since(begin)}, err
}

// bloat returns the number of dead rows and the size of all tables with their indexes. Sessions report their statistics when
// they end, so it first ends all but the long-open one.
func bloat(ctx context.Context, address string) (dead, size int64, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const end = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state = 'idle'`
	if _, err := conn.Exec(ctx, end); err != nil {
		return 0, 0, err
	}
	err = conn.QueryRow(ctx, `SELECT sum(n_dead_tup)::bigint, sum(pg_total_relation_size(relid))::bigint FROM pg_stat_user_tables`).Scan(&dead, &size)
	return dead, size, err
}

const (
	claimed     = 10 // jobs of a claim
	warmClaims  = 5  // warm-up: they plan and read the indexes into memory
	timedClaims = 60
)

// claiming measures claims from several backlogs in turn, each in a separate store that fill fills. Their medians are Outcome.Claims.
func claiming(open opener, backlogs []int, fill func(context.Context, measure.System, int) error) runner {
	return func(ctx context.Context, env *environment, _ measure.Task) (out Outcome, failed error) {
		var stores []measure.Claimer
		for _, backlog := range backlogs {
			s, err := open(ctx, env)
			if err != nil {
				return out, err
			}
			defer func() { failed = errors.Join(failed, s.Close()) }()
			if err := fill(ctx, s, backlog); err != nil {
				return out, err
			}
			stores = append(stores, s.(measure.Claimer))
		}
		took := make([][]time.Duration, len(stores))
		for i := range warmClaims + timedClaims {
			for at, s := range stores {
				begin := time.Now()
				got, err := s.Claim(ctx, claimed)
				if err == nil && got != claimed {
					err = fmt.Errorf("%d of %d jobs claimed from a backlog of %d", got, claimed, backlogs[at])
				}
				if err != nil {
					return out, err
				}
				if i >= warmClaims {
					took[at] = append(took[at], time.Since(begin))
				}
			}
		}
		for _, t := range took {
			out.Claims = append(out.Claims, measure.Quantile(t, 0.5))
		}
		return out, nil
	}
}
