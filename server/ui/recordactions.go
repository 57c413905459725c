package ui

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// readRecord returns the record that an action is about.
func readRecord(r *request) (recordRow, error) {
	var record api.Record
	err := r.get(recordsPath+"/record", recordQuery(recordID(r.query)), &record)
	return newRecordRow(r, record), err
}

// claimField carries the claim that the person has seen: a record that has changed since is left alone.
func claimField(row *recordRow) field {
	r := row.Record.Record()
	return field{Name: "claim", Type: "hidden", Value: api.ClaimTag(r.Claim())}
}

// keepResolved is how long a resolved record is kept, unless the person says otherwise: as on the command line.
const keepResolved = 720 * time.Hour

func resolveRecordAction() *action {
	return on("idempotency/resolve", readRecord, func(r *request, row recordRow) (*preview, error) {
		p := &preview{
			Title: "Resolve " + row.Key, Button: "Resolve 1 record", Counted: true, Count: 1, Command: commandLine(recordFlags("resolve", recordID(r.query))), Last: shellWords(operands(row.Key)),
			Text: []string{"The owner of the effect was lost, and nobody knows whether the effect happened. Find out first, for example in the other system's log."},
			Fields: []field{
				claimField(&row),
				{Name: "state", Label: "What happened", Type: "select", Options: []string{string(idempotency.Completed), string(idempotency.Failed), string(idempotency.Released)}, Help: "completed: it happened. failed: it did not happen, and must not. released: it did not happen, and the next caller runs it.", Flag: "--as VALUE"},
				{Name: "result", Label: "Result", Type: "textarea", Help: "What callers get, with completed: as the operation would have stored it, usually JSON. Empty: nothing.", Flag: "--result VALUE"},
				{Name: "message", Label: "Error", Value: "resolved by an operator", Help: "What callers get, with failed.", Flag: "--message VALUE", Usual: "resolved by an operator"},
				{Name: "ttl", Label: "Keep the record for", Value: "720h", Help: "Longer than callers and requeued jobs keep trying.", Required: true, Flag: "--ttl VALUE", Usual: "720h"},
			},
		}
		if !row.Unknown {
			p.Nothing, p.Fields, p.Text = true, nil, []string{"The record is " + string(row.State) + ". Only an unknown outcome, or a claim whose lease has ended, can be resolved."}
		}
		return p, nil
	}, func(r *request) (string, string, error) {
		in, err := newResolution(r)
		if err != nil {
			return "", "", err
		}
		err = r.change(client.Call{Method: http.MethodPost, Path: recordsPath + "/resolve", Body: in, IfMatch: r.PostFormValue("claim")}, nil)
		return in.Key + " was resolved as " + string(in.State) + ".", "", err
	})
}

// newResolution reads the form.
func newResolution(r *request) (api.Resolution, error) {
	in := api.Resolution{RecordID: recordID(r.query), State: idempotency.State(r.PostFormValue("state"))}
	result := strings.ReplaceAll(r.PostFormValue("result"), "\r\n", "\n") // browsers send other line breaks than were typed
	switch {
	case in.State != idempotency.Completed && result != "":
		return in, formFault("A result goes with completed.")
	case result != "":
		in.HasResult, in.Result = true, []byte(result)
	case in.State == idempotency.Failed:
		in.Failure = &idempotency.Failure{Type: "operator", Message: r.PostFormValue("message")}
	}
	ttl, err := formDuration(r, "ttl", "Keep the record for")
	in.TTL = cmp.Or(ttl, keepResolved).Seconds()
	return in, err
}

func clearRecordAction() *action {
	return on("idempotency/clear", readRecord, func(_ *request, row recordRow) (*preview, error) {
		p := &preview{
			Title: "Clear " + row.Key + "?", Button: "Clear 1 record", Danger: true, Counted: true, Count: 1, Command: row.Command("clear", "--yes"),
			Text: []string{"The record is removed. The next caller runs the effect again, whether it has happened or not."}, Fields: []field{claimField(&row)},
		}
		if row.Live {
			p.Nothing, p.Fields, p.Text = true, nil, []string{"The effect is running under a live claim. Wait until its lease has ended."}
		}
		return p, nil
	}, func(r *request) (string, string, error) {
		id := recordID(r.query)
		err := r.change(client.Call{Method: http.MethodPost, Path: recordsPath + "/clear", Body: id, IfMatch: r.PostFormValue("claim")}, nil)
		return id.Key + " was cleared.", r.ui.href("idempotency"), err
	})
}

// expireTogether is how many expired records one action removes at most.
const expireTogether = 10_000

func expireRecordsAction() *action {
	return &action{
		path: "idempotency/expire",
		preview: func(*request) (*preview, error) {
			return &preview{
				Title: "Remove expired records?", Button: "Remove expired records",
				Text: []string{
					"Up to " + number(expireTogether) + " records are removed whose time has passed. For callers they are gone already: this frees their space.",
					"Stores do not count them beforehand. Programs that write records also remove expired ones from time to time.",
				},
			}, nil
		},
		make: func(r *request) (string, string, error) {
			var out api.Expired
			err := r.change(client.Call{Method: http.MethodPost, Path: recordsPath + "/expire", Body: api.Expire{Limit: expireTogether}}, &out)
			return strconv.Itoa(out.Removed) + " expired records were removed.", "", err
		},
	}
}
