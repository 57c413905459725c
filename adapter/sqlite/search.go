package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// indexPrefix begins the names of the indexes on fields. The field follows.
const indexPrefix = "tenet_search "

// aboveAll is above every ID.
const aboveAll = "\U0010FFFF"

// Search implements job.Searcher.
func (s *Jobs) Search(ctx context.Context, q job.Search) (job.Found, error) {
	indexes, err := s.Indexes(ctx)
	if err != nil {
		return job.Found{}, err
	}
	newest := func(ctx context.Context, indexed *filter.Term, below string, n int) ([]string, error) {
		text, args := newestSQL(q.Filter, indexed, cmp.Or(below, aboveAll))
		return viewed(ctx, s, "search", func(q querier) ([]string, error) { return column[string](q, text, append(args, n)...) })
	}
	return q.Over(ctx, job.Candidates{Indexes: indexes, Newest: newest, List: s.List})
}

// newestSQL selects the highest IDs below one, and misses its last argument, their number.
func newestSQL(f job.Filter, indexed *filter.Term, below string) (text string, args []any) {
	const order = ` ORDER BY id DESC LIMIT ? + 0`
	if indexed == nil {
		if slices.Equal(f.States, []job.State{job.Dead}) {
			return `SELECT id FROM tenet_job WHERE state = 'dead' AND id < ?` + order, []any{below}
		}
		return `SELECT id FROM tenet_job WHERE id < ?` + order, []any{below}
	}
	var parts []string
	for _, v := range indexed.Values {
		parts = append(parts, `SELECT id FROM tenet_job INDEXED BY `+indexName(*indexed)+` WHERE `+indexedSQL(*indexed)+` = ? AND id < ?`)
		args = append(args, v.Text, below)
	}
	return strings.Join(parts, ` UNION ALL `) + order, args
}

// indexedSQL is a field in the form that its index has: with its path as a literal.
func indexedSQL(t filter.Term) string {
	return storedSQL(t, `'`+strings.ReplaceAll(jsonPath(t), `'`, `''`)+`'`)
}

// indexName is the quoted name of a field's index. Fields have no quotes in their names.
func indexName(t filter.Term) string { return `"` + indexPrefix + t.Name() + `"` }

// Indexes implements job.Searcher.
func (s *Jobs) Indexes(ctx context.Context) ([]string, error) {
	return viewed(ctx, s, "indexes", func(q querier) ([]string, error) {
		return column[string](q, `SELECT substr(name, length(?1) + 1) FROM sqlite_schema
WHERE type = 'index' AND tbl_name = 'tenet_job' AND substr(name, 1, length(?1)) = ?1 ORDER BY name`, indexPrefix)
	})
}

// SetIndex implements job.Indexer.
func (s *Jobs) SetIndex(ctx context.Context, field string, kept bool) error {
	t, err := job.IndexedField(field)
	if err != nil {
		return s.db.wrap("index", err)
	}
	text := `DROP INDEX IF EXISTS ` + indexName(t)
	if kept {
		text = `CREATE INDEX IF NOT EXISTS ` + indexName(t) + ` ON tenet_job (` + indexedSQL(t) + `, id)`
	}
	return s.write(ctx, "index", func(q querier) error { return q.exec(text) })
}
