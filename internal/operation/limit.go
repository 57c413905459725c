package operation

import (
	"encoding/json"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// OnLimit is an operator's setting of a limit, or its removal.
func OnLimit(before job.LimitState, s job.LimitSetting) audit.Operation {
	o := audit.Operation{Action: "limits.set", From: limitText(before.InForce()), Attributes: map[string]string{"limit": s.Name}}
	switch {
	case s.Off:
		o.To = "off"
	case s.Limit != nil:
		o.To = limitText(s.Limit)
	default:
		o.Action, o.To = "limits.reset", limitText(before.Document)
	}
	for name, value := range map[string]string{"queue": s.Queue, "type": s.Type} {
		if value != "" {
			o.Attributes[name] = value
		}
	}
	return o
}

// limitText is a limit in the audit log.
func limitText(l *policy.JobLimit) string {
	if l == nil {
		return "off"
	}
	text, err := json.Marshal(*l)
	if err != nil { // its fields can be encoded
		return ""
	}
	return string(text)
}
