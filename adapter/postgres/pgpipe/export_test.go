package pgpipe

// Statements returns the statements of every batch, with arguments of their types.
func (q *Queue) Statements() map[string][]any {
	ids, tokens := []string{"5", "6"}, []int64{1, 1}
	return map[string][]any{q.claim: {10, int64(1)}, q.settle: {ids, tokens}, q.move: {ids, tokens, int64(1)}}
}

// Statements returns the statements of every batch, for windows after a snapshot.
func (o *Outbox) Statements(snapshot string, seq int64) map[string][]any {
	return map[string][]any{o.window: {snapshot}, o.page: {snapshot, snapshot, seq, seq + 10, 10}}
}
