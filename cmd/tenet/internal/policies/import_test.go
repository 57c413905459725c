package policies

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

// TestT7TheDocumentThatGRPCIsComparedWithIsTheImported checks the document that a test of package tenetgrpc executes beside grpc-go.
func TestT7TheDocumentThatGRPCIsComparedWithIsTheImported(t *testing.T) {
	const folder = "../../../../adapter/grpc/testdata/"
	config, err := os.ReadFile(folder + "service-config.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(folder + "imported.yaml")
	if err != nil {
		t.Fatal(err)
	}
	converted, err := policyimport.GRPC(config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := documentOf(converted)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}
