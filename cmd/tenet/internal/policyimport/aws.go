package policyimport

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// awsQuota is the name of the budget that the SDKs call their retry quota.
const awsQuota = "aws-retry-quota"

// AWS converts the retry settings of the AWS SDKs' shared config file (~/.aws/config): retry_mode and max_attempts of each profile.
// The key of the default profile is "aws", that of another "aws-NAME". Profiles without these settings are left out.
func AWS(config []byte) (Converted, error) {
	const what = "aws config"
	if len(config) > maxInput {
		return Converted{}, fmt.Errorf("%s: %d bytes are too many; at most %d are read", what, len(config), maxInput)
	}
	r := newReader()
	c := newConverted()
	sections := r.ini(config)
	named := slices.ContainsFunc(sections, func(o object) bool { return o.path == "profile default" })
	for _, section := range sections {
		kind, name, _ := strings.Cut(section.path, " ")
		name = strings.Trim(name, `"'`)
		switch {
		case section.path == "default" && named:
			r.lost(section.path, "is left out: the SDKs read [profile default] in its place")
		case section.path == "default" || section.path == "profile default":
			r.profile(section, "aws", &c)
		case kind == "profile" && name != "":
			r.profile(section, "aws-"+name, &c)
		default:
			r.lost(section.path, "is left out: it is not a profile, written as [default] or [profile NAME]")
		}
	}
	return c.finish(r, what, "no profile has retry_mode or max_attempts")
}

func (r *reader) profile(o object, key string, c *Converted) {
	_, mode := o.fields["retry_mode"]
	_, attempts := o.fields["max_attempts"]
	if mode || attempts {
		c.add(r, key, o.path, r.sdk(o, c))
	}
	for _, name := range o.names() {
		r.lost(o.at(name), "does not concern retries and is left out")
	}
}

// sdk converts the settings of a profile. The numbers are those of standard mode in the AWS SDK for Go v2 (aws/retry, v1.48), with
// which a test compares the attempts.
func (r *reader) sdk(o object, c *Converted) policy.Policy {
	p := policy.Policy{Retry: policy.Retry{
		MaxAttempts: 3, InitialBackoff: 50 * time.Millisecond, BackoffMultiplier: 2, MaxBackoff: 20 * time.Second, Jitter: policy.JitterFull, ClassifierName: "http",
		RetryOn: []policy.Class{"http_429", "http_500", "http_502", "http_503", "http_504", policy.ClassNetwork, policy.ClassTimeout},
	}}
	path := o.at("retry_mode")
	switch mode := o.text("retry_mode"); strings.ToLower(mode) {
	case "":
		r.remark(path, "is not given, and its default depends on the SDK; standard is used")
	case "standard":
	case "adaptive":
		r.approximate(path, "is approximated by standard: requests are not slowed down when the service throttles; limit.adaptive bounds them by latency")
	case "legacy":
		p.Retry.MaxAttempts = 5
		r.approximate(path, "is approximated: legacy differs between SDKs; 5 attempts are made, as in boto3, under the quota of standard")
	default:
		r.fault(path, "%q is not legacy, standard or adaptive", mode)
	}
	p.Retry.MaxAttempts = o.fitted("max_attempts", p.Retry.MaxAttempts, policy.CallLimits().Attempts)
	p.Retry.Budget.Name = awsQuota
	c.Budgets[awsQuota] = policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.071, Burst: 35} // 1/14 and 500/14, rounded down
	r.remark(o.path, "the SDKs' retry quota of 500 tokens, of which a retry takes 14 and a success at once returns 1, is approximated by a burst of 35 retries and 0.071 retries a call; a retry after throttling takes 5")
	r.remark(o.path, "delays begin at 50ms, also after throttling, where the SDKs begin at 1s")
	r.remark(o.path, suppliedBy, "http", "tenethttp")
	r.remark(o.path, "the http classifier repeats only idempotent methods and requests with an Idempotency-Key after they may have been processed; the SDKs repeat all")
	return p
}

// comment is what stands behind a setting or the name of a section.
var comment = regexp.MustCompile(`\s[#;].*$`)

// ini reads the sections of a config file. Those of one name are one section. Settings nested below another one are part of it.
func (r *reader) ini(config []byte) (sections []object) {
	known := map[string]object{}
	var section object
	wrong := map[string][]int{} // lines by what is wrong with them
	const endless, early, unset = "the name of a section has no end", "a setting stands before the first section, such as [default]", "is not a setting, written as name = value"
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(config, []byte("\ufeff"))))
	lines.Buffer(nil, maxInput+1)
	for number := 1; lines.Scan(); number++ {
		line := comment.ReplaceAllString(lines.Text(), "")
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#' || text[0] == ';':
		case strings.HasPrefix(text, "["):
			name, ok := strings.CutSuffix(text[1:], "]")
			if !ok {
				wrong[endless] = append(wrong[endless], number)
			}
			name = strings.Join(strings.Fields(name), " ")
			if section, ok = known[name]; !ok {
				section = object{r: r, path: name, fields: map[string]any{}}
				known[name], sections = section, append(sections, section)
			}
		case len(sections) == 0:
			wrong[early] = append(wrong[early], number)
		case line[0] == ' ' || line[0] == '\t':
			if len(section.fields) == 0 {
				r.lost("line "+strconv.Itoa(number), "is left out: it is indented, but no setting of %q stands before it, and not all SDKs read it", section.path)
			}
		default:
			name, value, ok := strings.Cut(text, "=")
			if !ok {
				wrong[unset] = append(wrong[unset], number)
				continue
			}
			section.fields[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	for _, problem := range []string{endless, early, unset} { // once, not for each line of a file that is something else
		if numbers := wrong[problem]; len(numbers) > 0 {
			if len(numbers) > 1 {
				problem += fmt.Sprintf(" (and %d more)", len(numbers)-1)
			}
			r.fault("line "+strconv.Itoa(numbers[0]), "%s", problem)
		}
	}
	return sections
}
