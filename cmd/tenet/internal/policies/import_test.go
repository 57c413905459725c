package policies

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

// TestT7TheDocumentThatGRPCIsComparedWithIsTheImported checks the documents that tests of package tenetgrpc execute beside grpc-go.
func TestT7TheDocumentThatGRPCIsComparedWithIsTheImported(t *testing.T) {
	const folder = "../../../../adapter/grpc/testdata/"
	for config, document := range map[string]string{"service-config.json": "imported.yaml", "throttled.json": "throttled.yaml"} {
		text, err := os.ReadFile(folder + config)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(folder + document)
		if err != nil {
			t.Fatal(err)
		}
		converted, err := policyimport.GRPC(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := documentOf(converted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", config, diff)
		}
	}
}
