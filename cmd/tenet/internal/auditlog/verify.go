package auditlog

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/lists"
)

func verifyCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify [LOG]", Short: "Check every hash and link of a log", Args: cobra.MaximumNArgs(1),
		Long: `Check every hash and link of a log, and report the first event of each kind of fault: changed, missing, order, inserted,
truncated. Faults of files begin with FILE:LINE, counted from 1 in each file of a rotated log; indexes count the lines of
the whole log from 0. A truncated log ends before the reported place. Unchanged duplicates of a line are not a fault.

The log alone does not show that its end was cut off. Save its heads from time to time (tenet audit head), keep them
elsewhere, and pass them with --head: the file, or only a hash. A head in a file contains the chain, the
sequence number and the hash; with the hash alone, a rewritten end cannot be distinguished from a truncated one.

Exit code 1: the log has faults.`,
		Example: `  tenet audit verify audit.jsonl
  tenet audit head audit.jsonl --sign key.pem > heads.json
  tenet audit verify audit.jsonl --head heads.json --trust public.pem`,
	}
	f := &verifyFlags{}
	cmd.Flags().StringArrayVar(&f.heads, "head", nil, "a head that the log must contain: a hash, or a file written by audit head; may be repeated")
	cmd.Flags().StringVar(&f.after, "after", "", "file with the heads at which this part of the log begins, if its earlier part is kept elsewhere: written by audit head, or the .heads.json beside a rotated log")
	cmd.Flags().StringVar(&f.trust, "trust", "", "public key (PEM, Ed25519) that files of heads must be signed with")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		o, err := f.options(cmd.Context(), a)
		if err != nil {
			return err
		}
		return open.WithAuditLog(cmd.Context(), a, logOf(args), func(log *open.AuditLog) error {
			r, err := audit.Verify(cmd.Context(), log, o)
			if err != nil {
				return err
			}
			v := verified{r, lists.Map(r.Faults, func(f audit.Fault) foundFault { return found(log, f, &o) })}
			if err := a.Print(form, v, func(w io.Writer) { writeVerified(a, w, &v) }); err != nil {
				return err
			}
			switch err := log.CheckLines(r.Lines, r.Lines-r.Events-r.Duplicates); {
			case err != nil:
				return err
			case !r.Intact():
				return cli.Exit(cli.ExitFailed)
			}
			return nil
		})
	})
}

var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

type verifyFlags struct {
	heads        []string
	after, trust string
}

func (f *verifyFlags) options(ctx context.Context, a *cli.App) (o audit.VerifyOptions, err error) {
	var key ed25519.PublicKey
	if f.trust != "" {
		if key, err = readKey[ed25519.PublicKey](ctx, a, f.trust, x509.ParsePKIXPublicKey); err != nil {
			return o, err
		}
	}
	for _, h := range f.heads {
		if hashForm.MatchString(h) {
			o.Heads = append(o.Heads, audit.Head{Hash: h})
			continue
		}
		if h != cli.StandardInput && cli.Missing(h) {
			return o, cli.Fail(cli.ExitNotFound, fmt.Errorf("--head %s: no such file, and not a hash: 64 hexadecimal digits, in lower case", h))
		}
		text, err := a.ReadFile(ctx, h)
		if err != nil {
			return o, err
		}
		list, err := headsIn(h, text, key)
		if err != nil {
			return o, err
		}
		o.Heads = append(o.Heads, list...)
	}
	if f.after != "" {
		o.After, err = headsBefore(ctx, a, f.after, key)
	}
	return o, err
}

// headsBefore reads heads from the output of audit head, or from the file of heads beside a rotated log.
func headsBefore(ctx context.Context, a *cli.App, file string, key ed25519.PublicKey) ([]audit.Head, error) {
	text, err := a.ReadFile(ctx, file)
	if err != nil {
		return nil, err
	}
	var saved struct {
		Segment uint64       `json:"segment"`
		Heads   []audit.Head `json:"heads"`
	}
	if key == nil && json.Unmarshal(text, &saved) == nil && saved.Segment > 0 {
		return saved.Heads, nil
	}
	return headsIn(file, text, key)
}

// headsIn reads the output of audit head, which must be signed unless key is nil.
func headsIn(file string, text []byte, key ed25519.PublicKey) ([]audit.Head, error) {
	s, err := audit.VerifyHeads(text, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s.Heads, nil
}

// verified is the output of "audit verify".
type verified struct {
	*audit.VerifyReport
	Faults []foundFault `json:"faults"`
}

// foundFault is a fault with its place and remedy.
type foundFault struct {
	audit.Fault
	File   string `json:"file,omitempty"` // of a log in files
	Line   int    `json:"line,omitempty"` // in the file, from 1
	Remedy string `json:"remedy"`
}

// String returns the place of the fault and its description in one line.
func (f foundFault) String() string {
	if f.File == "" {
		return f.Fault.String()
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Fault)
}

// found adds the place and the remedy to a fault.
func found(log *open.AuditLog, f audit.Fault, o *audit.VerifyOptions) foundFault {
	file, line := log.Place(f.Index)
	return foundFault{f, file, line, remedy(f, o)}
}

func remedy(f audit.Fault, o *audit.VerifyOptions) string {
	switch {
	case f.Kind == audit.FaultChanged:
		return "restore this line from a backup or another sink, and find out who can write to the log"
	case f.Kind == audit.FaultMissing:
		return "restore the lines before this one from a backup or the rotated file that holds them, or give --after the heads of the part that is kept elsewhere"
	case f.Kind == audit.FaultOrder:
		return "sort the lines of the chain by seq: no event is lost by their order"
	case f.Kind == audit.FaultInserted:
		return "remove this line after noting where it came from: the chain does not need it"
	case slices.ContainsFunc(o.Heads, func(h audit.Head) bool { return h.ChainID == "" }):
		return "restore the end of the log from a backup, and verify with a file of heads (chain, seq and hash, from tenet audit head): a hash alone cannot tell an end that was rewritten from one that was cut off"
	}
	return "restore the lines from here on from a backup or another sink"
}

func writeVerified(a *cli.App, w io.Writer, r *verified) {
	verdict := a.Paint(a.Stdout, cli.Green, "intact")
	if !r.Intact() {
		verdict = a.Paint(a.Stdout, cli.Red, "not intact")
	}
	cli.Fprintf(w, "%s: %s in %s", verdict, cli.Count(r.Events, "event"), cli.Count(len(r.Chains), "chain"))
	if r.Duplicates > 0 {
		cli.Fprintf(w, ", %s delivered again", cli.Count(r.Duplicates, "line"))
	}
	cli.Fprintln(w)
	for _, f := range r.Faults {
		cli.Fprintln(w, a.Paint(a.Stdout, cli.Red, f.String()))
		cli.Fprintf(w, "  %s\n", f.Remedy)
	}
	if r.TailVerified {
		cli.Fprintln(w, "tail verified")
		return
	}
	cli.Fprintln(w, a.Paint(a.Stdout, cli.Yellow, "tail not verified"))
}

func headCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "head [LOG]", Short: "Print the heads of a log's chains, for a later verify", Args: cobra.MaximumNArgs(1),
		Long: `Print the heads of a log's chains as JSON. Keep them elsewhere and pass them to audit verify --head later. A file is verified
first and refused if it has faults; a store is only asked for its heads.

Keys are PEM files, created for example by: openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out public.pem`,
		Example: "  tenet audit head audit.jsonl > heads.json\n  tenet audit head audit.jsonl --sign key.pem > heads.json",
	}
	sign := cmd.Flags().String("sign", "", "private key (PEM, Ed25519) to sign the heads with")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) error {
		var key ed25519.PrivateKey
		if *sign != "" {
			var err error
			if key, err = readKey[ed25519.PrivateKey](cmd.Context(), a, *sign, x509.ParsePKCS8PrivateKey); err != nil {
				return err
			}
		}
		return open.WithAuditLog(cmd.Context(), a, logOf(args), func(log *open.AuditLog) error {
			heads, err := headsOf(cmd.Context(), log)
			if err != nil {
				return err
			}
			signed, err := audit.SignHeads(heads, time.Now(), key)
			if err != nil {
				return err
			}
			if form == cli.FormText {
				form = cli.FormJSON
			}
			return a.Print(form, signed, nil)
		})
	})
}

func headsOf(ctx context.Context, log *open.AuditLog) ([]audit.Head, error) {
	if log.Heads != nil {
		return log.Heads(ctx)
	}
	r, err := audit.Verify(ctx, log, audit.VerifyOptions{})
	if err != nil {
		return nil, err
	}
	if !r.Intact() {
		return nil, fmt.Errorf("the log is not intact, so its heads prove nothing: %s", found(log, r.Faults[0], &audit.VerifyOptions{}))
	}
	return lists.Map(r.Chains, func(c audit.ChainReport) audit.Head { return c.Head }), nil
}

// readKey reads a PEM file that holds an Ed25519 key.
func readKey[K any](ctx context.Context, a *cli.App, file string, parse func([]byte) (any, error)) (key K, err error) {
	text, err := a.ReadFile(ctx, file)
	if err != nil {
		return key, err
	}
	const remedy = "--sign takes the private key, --trust the public one; tenet audit head --help shows how to make them"
	block, _ := pem.Decode(text)
	if block == nil {
		return key, fmt.Errorf("%s: not a PEM file: %s", file, remedy)
	}
	parsed, err := parse(block.Bytes)
	key, ok := parsed.(K)
	if err != nil || !ok {
		return key, fmt.Errorf("%s: not an Ed25519 key, or the wrong one of a pair: %s", file, remedy)
	}
	return key, nil
}
