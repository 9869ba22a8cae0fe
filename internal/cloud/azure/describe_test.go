package azure

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestReasonDescriptions: a reason without a description has the label "Other" in the metrics. A description
// without a reason is dead.
func TestReasonDescriptions(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`(?:Reason: |add\(|efuse\()(?:"|cloud\.)([A-Z][A-Za-z]+)[",]`)
	var found []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range written.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains([]string{cloud.PoolNotCopyable, cloud.TerraformManaged}, match[1]) { // described for all clouds
				found = append(found, match[1])
			}
		}
	}
	found = append(found, galleryUnsuitable, string(cloud.QuotaExceeded), cloud.PermissionMissing, cloud.RootDiskTooLarge)
	described := Describe().ReasonNames()
	if len(found) < 10 {
		t.Fatalf("only %v are found", found)
	}
	for _, reason := range found {
		if !slices.Contains(described, reason) {
			t.Errorf("%s is not described", reason)
		}
	}
	for _, reason := range described {
		if !slices.Contains(found, reason) {
			t.Errorf("%s is described, and nothing is refused for it", reason)
		}
	}
	if !slices.IsSorted(described) {
		t.Errorf("they are out of order: %v", described)
	}
}

func TestRequestClasses(t *testing.T) {
	for method, want := range map[string]string{
		http.MethodGet: classRead, http.MethodHead: classRead, http.MethodPut: classWrite, http.MethodPatch: classWrite,
		http.MethodPost: classWrite, http.MethodDelete: classDelete,
	} {
		if got := classOf(method); got != want || !slices.Contains(Describe().Classes, got) {
			t.Errorf("%s is a %s, want %s", method, got, want)
		}
	}
}

// TestRoleNamesEachActionOnce: actions of several purposes are in one role.
func TestRoleNamesEachActionOnce(t *testing.T) {
	for _, powers := range [][]string{nil, {cloud.ForInPlace, cloud.ForRebuild}} {
		text, err := role(powers...)
		if err != nil {
			t.Fatal(err)
		}
		var of struct{ Actions []string }
		if err := json.Unmarshal(text, &of); err != nil || len(of.Actions) < 10 || len(slices.Compact(slices.Clone(of.Actions))) != len(of.Actions) {
			t.Errorf("%v, %v", of.Actions, err)
		}
	}
}
