package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheChartIsNotStale holds the chart to its sources: definitions, roles, and the policy's schema.
func TestTheChartIsNotStale(t *testing.T) {
	const chart = "../kamino"
	files, err := render(chart)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("run `make generate`: %v", err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale, run `make generate` (-want +got):\n%s", path, diff)
		}
	}
	there, err := filepath.Glob(filepath.Join(chart, "crds", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if _, wanted := files[path]; !wanted {
			t.Errorf("%s has no source any more, run `make generate`", path)
		}
	}
}

func TestStrict(t *testing.T) {
	got := strict(map[string]any{
		"type": "object", "x-kubernetes-validations": []any{}, "format": "dropped",
		"properties": map[string]any{
			"names": map[string]any{"type": "array", "x-kubernetes-list-type": "set", "items": map[string]any{"type": "string"}},
			"any":   map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			"size":  map[string]any{"x-kubernetes-int-or-string": true},
		},
	})
	want := map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"names": map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{"type": "string"}},
			"any":   map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			"size":  map[string]any{"type": []any{"integer", "string"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
