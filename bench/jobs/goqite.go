package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
	_ "modernc.org/sqlite" // the driver

	"github.com/tenetdev/tenet/bench/jobs/riversqlite/measure"
)

// goqiteJobs is goqite on SQLite with the settings of its documentation: one connection, a write-ahead log.
type goqiteJobs struct {
	db      *sql.DB
	queue   *goqite.Queue
	options jobs.NewRunnerOpts
	remove  func() error
}

func goqiteSQLite(o jobs.NewRunnerOpts) opener {
	return func(ctx context.Context, env *environment) (measure.System, error) {
		path, remove, err := env.file()
		if err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=busy_timeout(10000)&_txlock=immediate")
		if err != nil {
			return nil, errors.Join(err, remove())
		}
		db.SetMaxOpenConns(1)
		if err := goqite.Setup(ctx, db); err != nil {
			return nil, errors.Join(err, db.Close(), remove())
		}
		// An unfinished job is received again after a minute, so that no job runs twice here.
		queue := goqite.New(goqite.NewOpts{DB: db, Name: "default", Timeout: time.Minute})
		return &goqiteJobs{db: db, queue: queue, options: o, remove: remove}, nil
	}
}

// goqiteTuned has the fastest settings of goqite here. Its runner waits for a PollInterval before each job.
func goqiteTuned() jobs.NewRunnerOpts {
	return jobs.NewRunnerOpts{Limit: 10, PollInterval: time.Microsecond, Extend: time.Minute}
}

func (s *goqiteJobs) Insert(ctx context.Context) error {
	return jobs.Create(ctx, s.queue, jobType, []byte(`{"n":0}`))
}

// InsertMany sends jobs one by one in one transaction, which is goqite's fastest way.
func (s *goqiteJobs) InsertMany(ctx context.Context, n int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for range n {
		if err := jobs.CreateTx(ctx, tx, s.queue, jobType, []byte(`{"n":0}`)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *goqiteJobs) Work(ctx context.Context, ran func()) (func() error, error) {
	o := s.options
	o.Queue = s.queue
	runner := jobs.NewRunner(o)
	runner.Register(jobType, func(context.Context, []byte) error {
		ran()
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runner.Start(ctx)
	}()
	return func() error {
		cancel()
		<-ended
		return nil
	}, nil
}

// Left counts rows: goqite deletes finished jobs.
func (s *goqiteJobs) Left(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM goqite`).Scan(&n)
	return n, err
}

func (s *goqiteJobs) Close() error { return errors.Join(s.db.Close(), s.remove()) }
