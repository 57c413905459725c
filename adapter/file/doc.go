// Package file reads and writes transactions in JSONL and CSV files.
//
// # The model
//
//	path ──► Source ──► consumer ──acks──► path.offset
//	                       │
//	                       ▼
//	                     Sink ──► path.part ──Close──► path
//
// A [Source] streams: its memory does not grow with the file. A line of JSONL is a transaction with the line as its payload;
// its ID is the "id" member where the line is an object that has one (a string or a number), else "path:offset". A row of CSV
// becomes a JSON object of strings with the header's names, and its ID follows the same rule. Blank lines are passed over.
//
// What has been acknowledged is written to a file beside the input, in order or not, and flushed to the disk before Ack
// returns. A source that is opened again goes on from there: it hands out all that was not acknowledged, and nothing else.
//
// A line that is no record (not JSON, the wrong number of columns, longer than the limit) is logged with its number, and goes
// to the sink [SourceOptions].Poison, or, where that is nil, to the task, which finds out with [Problem].
//
// A [Sink] writes beside its target and puts the file in its place as a whole when it is closed. Everything that was
// dispatched survives a crash before that, and the next sink goes on with it.
//
// # What it does not do
//
// A file that is followed may grow, and must not shrink, be replaced or rotated. A sink does not recognise a transaction that
// is dispatched twice. Sources have no values for fetch.extra.
package file
