package migrate_test

import (
	"fmt"
	"testing/fstest"

	"github.com/tenetdev/tenet/internal/migrate"
)

func ExampleSet_Plan() {
	set, err := migrate.Load(fstest.MapFS{
		"migrations/001_jobs.up.sql":   {Data: []byte("CREATE TABLE {{schema}}.job (id uuid PRIMARY KEY);")},
		"migrations/001_jobs.down.sql": {Data: []byte("DROP TABLE {{schema}}.job;")},
	}, migrate.Record{
		Up:   "INSERT INTO {{schema}}.migration VALUES ({{version}}, '{{name}}');",
		Down: "DELETE FROM {{schema}}.migration WHERE version = {{version}};",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	steps, _ := set.Plan(migrate.Up, nil, `"tenet"`)
	for _, s := range steps {
		fmt.Println(s, s.SQL)
	}
	// Output:
	// 001_jobs.up CREATE TABLE "tenet".job (id uuid PRIMARY KEY);
	// INSERT INTO "tenet".migration VALUES (1, 'jobs');
}
