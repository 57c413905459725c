package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// riverArgs are the arguments of a job that does nothing.
type riverArgs struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return jobType }

// riverJobs is River on PostgreSQL.
type riverJobs struct {
	address string
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx] // inserts
	driver  *riverpgxv5.Driver
	config  river.Config // the worker's client
	drop    func() error
}

// riverDefaults are River's defaults. MaxWorkers has no default; River's documentation shows 100.
func riverDefaults() river.Config {
	return river.Config{Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}}
}

// riverTuned has the fastest settings of River here: it fetches jobs as often as possible, without a timer for each job.
func riverTuned() river.Config {
	return river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: river.FetchPollIntervalMin, JobTimeout: -1,
	}
}

func riverPostgres(config river.Config, conns int) opener {
	return func(ctx context.Context, env *environment) (_ measure.System, err error) {
		s := &riverJobs{config: config}
		if s.address, s.drop, err = env.database(ctx); err != nil {
			return nil, err
		}
		options, err := pgxpool.ParseConfig(s.address)
		if err != nil {
			return nil, errors.Join(err, s.drop())
		}
		if conns > 0 {
			options.MaxConns = int32(conns)
		}
		if s.pool, err = pgxpool.NewWithConfig(ctx, options); err != nil {
			return nil, errors.Join(err, s.drop())
		}
		if err := s.start(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	}
}

// prompt makes the inserting client notify as often as possible, which slows down inserts but starts their jobs sooner.
func prompt(open opener) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		s, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		r := s.(*riverJobs)
		r.client, err = r.inserter(river.FetchCooldownMin)
		return r, err
	}
}

// start creates River's tables and the inserting client.
func (s *riverJobs) start(ctx context.Context) error {
	s.driver = riverpgxv5.New(s.pool)
	migrator, err := rivermigrate.New(s.driver, &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	s.client, err = s.inserter(0)
	return err
}

// inserter makes a client that only inserts. It notifies at most once in a FetchCooldown; 0 is the default.
func (s *riverJobs) inserter(cooldown time.Duration) (*river.Client[pgx.Tx], error) {
	return river.NewClient(s.driver, &river.Config{Logger: quiet(), FetchCooldown: cooldown})
}

func (s *riverJobs) Insert(ctx context.Context) error {
	_, err := s.client.Insert(ctx, riverArgs{}, nil)
	return err
}

func (s *riverJobs) InsertMany(ctx context.Context, n int) error {
	list := make([]river.InsertManyParams, n)
	for i := range list {
		list[i] = river.InsertManyParams{Args: riverArgs{N: i}}
	}
	_, err := s.client.InsertManyFast(ctx, list)
	return err
}

func (s *riverJobs) Work(ctx context.Context, ran func()) (func() error, error) {
	config := s.config
	config.Logger, config.Workers = quiet(), river.NewWorkers()
	river.AddWorker(config.Workers, river.WorkFunc(func(context.Context, *river.Job[riverArgs]) error {
		ran()
		return nil
	}))
	client, err := river.NewClient(s.driver, &config)
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(ctx) }, nil
}

func (s *riverJobs) Left(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&n)
	return n, err
}

func (s *riverJobs) Claim(ctx context.Context, n int) (int, error) {
	now := time.Now()
	result, err := s.driver.GetExecutor().JobGetAvailable(ctx, &riverdriver.JobGetAvailableParams{
		ClientID: "bench", MaxAttemptedBy: 100, MaxToLock: n, Now: &now, Queue: river.QueueDefault,
	})
	if err != nil {
		return 0, err
	}
	return len(result.Jobs), nil
}

// Address is the address of the database.
func (s *riverJobs) Address() string { return s.address }

func (s *riverJobs) Settle(ctx context.Context) error { return tidy(ctx, s.address) }

func (s *riverJobs) Close() error {
	s.pool.Close()
	return s.drop()
}
