package prove

import (
	"encoding/json"
	"net/url"
)

// SARIF encodes findings as a SARIF 2.1.0 log (OASIS), which code hosts and editors show beside the text. Properties that hold are
// results of kind pass; violations that the document accepts carry their reason as a suppression.
func SARIF(findings []Finding) ([]byte, error) {
	run := sarifRun{Results: make([]sarifResult, 0, len(findings)), ColumnKind: "unicodeCodePoints"}
	run.Tool.Driver.Name = "tenet policy prove"
	run.Tool.Driver.InformationURI = "https://github.com/tenetdev/tenet/blob/main/docs/prove.md"
	index := map[string]int{}
	for i, r := range rules {
		index[r.Code] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: r.Code, Short: sarifText{r.Property}, Full: sarifText{r.Why}, HelpURI: run.Tool.Driver.InformationURI + "#" + r.Code,
		})
	}
	for _, f := range findings {
		result := sarifResult{RuleID: f.Code, RuleIndex: index[f.Code], Kind: "pass", Level: "none", Message: sarifText{f.Message}}
		if f.Verdict == Violated {
			result.Kind, result.Level = "fail", string(f.Severity)
		}
		if f.Suppressed != "" {
			result.Suppressions = []sarifSuppression{{"inSource", f.Suppressed}}
		}
		var at sarifLocation
		at.Physical.Artifact.URI = (&url.URL{Path: f.Fault.File}).String()
		at.Physical.Region = sarifRegion{f.Line, f.Column}
		at.Logical = []sarifName{{f.Path}}
		result.Locations = []sarifLocation{at}
		run.Results = append(run.Results, result)
	}
	return json.MarshalIndent(map[string]any{
		"$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		"version": "2.1.0", "runs": []sarifRun{run},
	}, "", "  ")
}

type sarifRun struct {
	Tool struct {
		Driver struct {
			Name           string      `json:"name"`
			InformationURI string      `json:"informationUri"`
			Rules          []sarifRule `json:"rules"`
		} `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifRule struct {
	ID      string    `json:"id"`
	Short   sarifText `json:"shortDescription"`
	Full    sarifText `json:"fullDescription"`
	HelpURI string    `json:"helpUri"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID       string             `json:"ruleId"`
	RuleIndex    int                `json:"ruleIndex"`
	Kind         string             `json:"kind"`
	Level        string             `json:"level"`
	Message      sarifText          `json:"message"`
	Locations    []sarifLocation    `json:"locations"`
	Suppressions []sarifSuppression `json:"suppressions,omitempty"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region sarifRegion `json:"region"`
	} `json:"physicalLocation"`
	Logical []sarifName `json:"logicalLocations"`
}

type sarifRegion struct {
	Line   int `json:"startLine"`
	Column int `json:"startColumn"`
}

type sarifName struct {
	Name string `json:"fullyQualifiedName"`
}

type sarifSuppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}
