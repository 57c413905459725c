package auditlog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/server/client"
)

// eventFilter selects events.
type eventFilter struct {
	types                       []string
	category, work, key, reason string
	since, until                string
	from, to                    time.Time
	needles                     [][]byte // texts that every matching line contains
}

func (f *eventFilter) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.types, "type", nil, "types of events, for example retry_exhausted,call_stopped")
	flags.StringVar(&f.category, "category", "", "category by name or code, for example NATS_PUBLISH or RETRY_NATS_PUBLISH")
	flags.StringVar(&f.work, "work", "", "ID of a call, job or transaction")
	flags.StringVar(&f.key, "key", "", "key, for example user-service.GetUser")
	flags.StringVar(&f.reason, "reason", "", "reason of the decision, for example budget_denied")
	flags.StringVar(&f.since, "since", "", "from this time on: RFC 3339, or a duration before now such as 15m")
	flags.StringVar(&f.until, "until", "", "before this time: RFC 3339, or a duration before now")
}

// prepare checks the flags.
func (f *eventFilter) prepare() (err error) {
	for _, t := range f.types {
		if !slices.Contains(audit.Types(), audit.Type(t)) {
			return cli.Usagef("--type: unknown type %q; known are %s", t, strings.Join(TypeNames(), ", "))
		}
	}
	if r := policy.Reason(f.reason); r != "" && !r.Known() {
		return unknownReason(f.reason)
	}
	if category, known := policy.ParseCategory(f.category); known {
		f.category = category.Code()
	}
	if f.from, err = cli.Moment("since", f.since); err != nil {
		return err
	}
	if f.to, err = cli.Moment("until", f.until); err != nil {
		return err
	}
	for member, value := range map[string]string{"retry_category": f.category, "work_id": f.work, "key": f.key, "reason": f.reason} {
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf || r == '"' || r == '\\' }) {
			continue // the line may have escapes here, so only the parsed event is compared
		}
		f.needles = append(f.needles, []byte(`"`+member+`":"`+value+`"`))
	}
	return nil
}

// unknownReason returns the failure for a reason that no event has. Texts of classifiers are details, not reasons.
func unknownReason(name string) error {
	known := lists.Map(policy.Reasons(), func(r policy.ReasonInfo) string { return string(r.Reason) })
	if match := near.Name(name, known); match != "" {
		return cli.Usagef("--reason: unknown reason %q; did you mean %s?", name, match)
	}
	return cli.Usagef("--reason: unknown reason %q; known are %s", name, strings.Join(known, ", "))
}

// TypeNames lists the types of audit events.
func TypeNames() []string { return lists.Texts(audit.Types()) }

// match parses a line and reports whether it matches. A line that is not an event does not match; err says why.
func (f *eventFilter) match(line []byte) (e audit.Event, wanted bool, err error) {
	for _, needle := range f.needles {
		if !bytes.Contains(line, needle) {
			return audit.Event{}, false, audit.CheckLine(line)
		}
	}
	e, err = audit.ParseLine(line)
	return e, err == nil &&
		(len(f.types) == 0 || slices.Contains(f.types, string(e.Type))) &&
		(f.category == "" || f.category == e.Category) && (f.work == "" || f.work == e.WorkID) &&
		(f.key == "" || f.key == e.Key) && (f.reason == "" || f.reason == string(e.Reason)) &&
		(f.from.IsZero() || !e.Time.Before(f.from)) && (f.to.IsZero() || e.Time.Before(f.to)), err
}

var errEnough = errors.New("enough")

func queryCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "query [LOG]", Short: "Print the events of a log that match", Args: cobra.MaximumNArgs(1),
		Long:    "Print the events of a log that match all given conditions, in stored order. -o jsonl prints\nthe stored lines unchanged.",
		Example: "  tenet audit query audit.jsonl --type retry_exhausted --since 1h\n  tenet audit query audit.jsonl --work 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 -o jsonl",
	}
	var f eventFilter
	f.add(cmd)
	limit := cmd.Flags().Int("limit", 0, "print no more than this many (default: all)")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if err := f.prepare(); err != nil {
			return err
		}
		if *limit < 0 {
			return cli.Usagef("--limit %d: write a positive number, or 0 for all", *limit)
		}
		return open.WithAuditLog(cmd.Context(), a, logOf(args), func(log *open.AuditLog) error {
			p := eventPrinter{app: a, form: form}
			var left unreadable
			defer func() { warnUnreadable(a, log, &left) }()
			err := log.Read(cmd.Context(), "", func(_ string, line []byte) error {
				e, wanted, err := f.match(line)
				left.add(err)
				if !wanted {
					return nil
				}
				if err := p.print(&e, line); err != nil {
					return err
				}
				if p.printed == *limit {
					return errEnough
				}
				return nil
			})
			if err != nil && !errors.Is(err, errEnough) {
				return err
			}
			return p.finish()
		})
	})
}

func tailCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tail [LOG]", Short: "Print the last events of a log and follow it", Args: cobra.MaximumNArgs(1),
		Long: `Print the last events of a log that match all given conditions, then new events as they arrive, until interrupted.

If the log cannot be read for a time, the command says so, and goes on when the log can be read again. If the log is replaced by a
shorter one, such as a backup, the command goes on with the events that are newer than those that it has read. It does not notice
that an SQLite file has been replaced by another one.`,
		Example: "  tenet audit tail audit.jsonl -n 20\n  tenet audit tail audit.jsonl --type retry_exhausted,call_stopped --follow=false",
	}
	var f eventFilter
	f.add(cmd)
	n := cmd.Flags().IntP("lines", "n", 10, "how many existing events to print")
	follow := cmd.Flags().BoolP("follow", "f", true, "wait for more")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		if *n < 0 {
			return cli.Usagef("-n %d: write 0 or more", *n)
		}
		if err := f.prepare(); err != nil {
			return err
		}
		p := eventPrinter{app: a, form: form}
		if *follow && (form == cli.FormJSON || form == cli.FormYAML) {
			p.form = cli.FormJSONL // an endless list never closes
		}
		return open.WithAuditLog(cmd.Context(), a, logOf(args), func(log *open.AuditLog) error {
			t := &tailer{log: log, filter: &f, printer: &p}
			if err := t.last(cmd.Context(), *n); err != nil {
				return err
			}
			if *follow {
				return t.follow(cmd.Context())
			}
			return p.finish()
		})
	})
}

// Times of a followed log.
const (
	pollEvery   = 200 * time.Millisecond // between two reads
	pollLongest = 5 * time.Second        // while it cannot be read
	quietReads  = 10                     // in a row, after which the command looks whether the log was replaced
)

// tailer prints the end of a log.
type tailer struct {
	log     *open.AuditLog
	filter  *eventFilter
	printer *eventPrinter
	cursor  string    // of the last line that was read
	newest  time.Time // of the matching events that were read
	left    unreadable
}

// last prints the last n matching events.
func (t *tailer) last(ctx context.Context, n int) error {
	var last [][]byte
	err := t.log.Read(ctx, "", func(cursor string, line []byte) error {
		t.cursor = cursor
		if _, wanted := t.match(line); !wanted || n == 0 {
			return nil
		}
		if len(last) == n {
			last = append(last[:0], last[1:]...)
		}
		last = append(last, bytes.Clone(line))
		return nil
	})
	if err != nil {
		return err
	}
	warnUnreadable(t.printer.app, t.log, &t.left)
	for _, line := range last {
		e, _, _ := t.filter.match(line)
		if err := t.printer.print(&e, line); err != nil {
			return err
		}
	}
	return nil
}

// match reports whether the line at the cursor is an event that is wanted.
func (t *tailer) match(line []byte) (e audit.Event, wanted bool) {
	e, wanted, err := t.filter.match(line)
	t.left.add(err)
	if wanted && e.Time.After(t.newest) {
		t.newest = e.Time
	}
	return e, wanted
}

// follow prints matching events as they are written, until the command is stopped or the server refuses it.
func (t *tailer) follow(ctx context.Context) error {
	failures := wait.Backoff{Min: pollEvery, Max: pollLongest}
	pause, quiet := pollEvery, 0
	for wait.For(ctx, pause) == nil {
		from := t.cursor
		var printed error
		err := t.log.Read(ctx, t.cursor, func(cursor string, line []byte) error {
			t.cursor = cursor
			if e, wanted := t.match(line); wanted {
				printed = t.printer.print(&e, line)
			}
			return printed
		})
		warnUnreadable(t.printer.app, t.log, &t.left)
		if quiet++; t.cursor != from {
			quiet = 0
		}
		if quiet == quietReads {
			t.lookForEnd(ctx)
			quiet = 0
		}
		problem, refused := errors.AsType[*client.Problem](err)
		switch {
		case ctx.Err() != nil:
		case printed != nil, refused && problem.Status < http.StatusInternalServerError && problem.Status != http.StatusTooManyRequests:
			return err
		case err != nil:
			if failures.Failures() == 0 {
				t.printer.app.Warn("the log cannot be read; reading again until it can be: %v", err)
			}
			pause = failures.Failed()
		default:
			if failures.Failures() > 0 {
				t.printer.app.Warn("the log can be read again")
			}
			failures.Reset()
			pause = pollEvery
		}
	}
	return cli.Exit(cli.ExitFailed) // the signal decides the exit code
}

// lookForEnd goes back to the beginning of a log that ends before the cursor, without the events that were read.
func (t *tailer) lookForEnd(ctx context.Context) {
	tailer, ok := t.log.Source.(audit.Tailer)
	if !ok {
		return
	}
	end, err := tailer.Tail(ctx)
	if err != nil || slices.Compare(numbers(end), numbers(t.cursor)) >= 0 {
		return
	}
	t.printer.app.Warn("the log has become shorter: it was replaced, or its writer took back an append that failed; " +
		"going on with the events that are newer than those already read")
	t.cursor, t.left = "", unreadable{}
	if next := t.newest.Add(1); next.After(t.filter.from) {
		t.filter.from = next
	}
}

// numbers returns those that a cursor consists of: stores number their lines, files have FILE:OFFSET.
func numbers(cursor string) (list []uint64) {
	for text := range strings.SplitSeq(cursor, ":") {
		n, _ := strconv.ParseUint(text, 10, 64)
		list = append(list, n)
	}
	return list
}

// eventPrinter prints each event at once, or all of them as a list at the end.
type eventPrinter struct {
	app     *cli.App
	form    string
	printed int
	list    []json.RawMessage
}

func (p *eventPrinter) print(e *audit.Event, line []byte) (err error) {
	p.printed++
	switch p.form {
	case cli.FormText:
		_, err = io.WriteString(p.app.Stdout, string(eventLine(p.app, e))+"\n")
	case cli.FormJSONL:
		_, err = p.app.Stdout.Write(append(bytes.Clone(line), '\n'))
	case cli.FormJSON, cli.FormYAML:
		p.list = append(p.list, bytes.Clone(line))
	}
	return err
}

func (p *eventPrinter) finish() error {
	if p.form != cli.FormJSON && p.form != cli.FormYAML {
		return nil
	}
	return p.app.Print(p.form, p.list, func(io.Writer) {})
}

// eventLine formats an event as a line of text.
func eventLine(a *cli.App, e *audit.Event) cli.Safe {
	parts := []cli.Safe{a.Paint(a.Stdout, cli.Faint, momentOf(e.Time)), a.Paint(a.Stdout, cli.Bold, e.Type)}
	add := func(format string, args ...any) { parts = append(parts, cli.Textf(format, args...)) }
	if e.Key != "" {
		add("%s", e.Key)
	}
	if e.WorkID != "" {
		add("%s", e.WorkID)
	}
	if e.Attempt > 0 {
		add("attempt %d", e.Attempt)
	}
	if e.OutcomeKind != "" {
		add("%s (%s)", e.OutcomeKind, e.OutcomeReason)
	}
	switch {
	case e.DelayNS > 0:
		add("→ %s after %s", e.Decision, cli.Brief(e.DelayNS.Duration()))
	case e.Decision != "":
		add("→ %s (%s)", e.Decision, e.Reason)
	}
	if e.Action != "" {
		add("%s", e.Action)
	}
	if e.From != "" || e.To != "" {
		add("%s → %s", cmp.Or(e.From, "-"), cmp.Or(e.To, "-"))
	}
	if e.Count > 0 || e.Lost > 0 {
		add("%d counted, %d lost", e.Count, e.Lost)
	}
	if message := e.ExceptionMessage + e.FinalExceptionMessage; message != "" {
		add("%q", cli.OneLine(message))
	}
	return cli.Joined(parts, "  ")
}

// momentOf formats a time with milliseconds.
func momentOf(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }
