package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver
)

// args are the arguments of a job that does nothing.
type args struct {
	N int `json:"n"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "noop" }

type system struct {
	db     *sql.DB
	client *river.Client[*sql.Tx] // inserts
	tuned  bool
}

// open creates a database with River's tables and opens one connection, as River's documentation advises for SQLite.
func open(ctx context.Context, path string, tuned bool) (*system, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: quiet()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	s := &system{db: db, tuned: tuned}
	if err == nil {
		s.client, err = river.NewClient(riversqlite.New(db), &river.Config{Logger: quiet()})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func (s *system) Insert(ctx context.Context) error {
	_, err := s.client.Insert(ctx, args{}, nil)
	return err
}

func (s *system) InsertMany(ctx context.Context, n int) error {
	list := make([]river.InsertManyParams, n)
	for i := range list {
		list[i] = river.InsertManyParams{Args: args{N: i}}
	}
	_, err := s.client.InsertManyFast(ctx, list)
	return err
}

func (s *system) Work(ctx context.Context, ran func()) (func() error, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[args]) error {
		ran()
		return nil
	}))
	config := &river.Config{
		Logger: quiet(), Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	}
	if s.tuned {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1000}}
		config.FetchCooldown, config.FetchPollInterval, config.JobTimeout = time.Millisecond, time.Millisecond, -1
	}
	client, err := river.NewClient(riversqlite.New(s.db), config)
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error { return client.Stop(ctx) }, nil
}

func (s *system) Left(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&n)
	return n, err
}

func (s *system) Close() error { return s.db.Close() }
