package page

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// anchors are the headings of a page in the form of GitHub.
func anchors(text string) (all []string) {
	for line := range strings.Lines(text) {
		if title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			all = append(all, strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-"))
		}
	}
	return all
}

// TestAddresses checks that each address leads to a heading of a page in this repository.
func TestAddresses(t *testing.T) {
	for _, address := range []string{
		Root + "reference/aws.md#credentials", Root + "reference/aws.md#permissions", Root + "reference/aws.md#resources",
		Root + "reference/azure.md#credentials", Root + "reference/azure.md#permissions", Root + "reference/azure.md#resources",
		ClusterAPI + "#rights", ClusterAPI + "#enable-cluster-api",
		Policy, History + "#restoring-the-recipe-before-the-first-version", Kured, Moving, Reason("DrainTimeout"), Reason("AtMinimum"),
	} {
		path, found := strings.CutPrefix(address, Root)
		if !found {
			t.Errorf("%s is not below %s", address, Root)
			continue
		}
		path, anchor, _ := strings.Cut(path, "#")
		text, err := os.ReadFile("../../../docs/" + path)
		if err != nil {
			t.Error(err)
		} else if anchor != "" && !slices.Contains(anchors(string(text)), anchor) {
			t.Errorf("docs/%s has no heading %q", path, anchor)
		}
	}
}
