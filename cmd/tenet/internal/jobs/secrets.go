package jobs

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/job"
)

// Secrets hides what must not be printed of jobs.
type Secrets struct{ secrets.Redaction }

// SecretFlags adds --show-secrets and --redact to a command that prints jobs.
func SecretFlags(cmd *cobra.Command) *Secrets {
	s := &Secrets{}
	cmd.Flags().BoolVar(&s.Show, "show-secrets", false, "print the values of "+strings.Join(secrets.Names(), ", ")+" in payloads and metadata")
	cmd.Flags().StringSliceVar(&s.More, "redact", nil, "additional names in payloads and metadata whose values are redacted; may be repeated")
	return s
}

// hide returns a copy of a job that may be printed.
func (s *Secrets) hide(r *job.Record) *job.Record {
	if s.Show {
		return r
	}
	hidden := *r
	hidden.Payload, hidden.Output, hidden.Meta = s.JSON(r.Payload), s.JSON(r.Output), s.Map(r.Meta)
	return &hidden
}
