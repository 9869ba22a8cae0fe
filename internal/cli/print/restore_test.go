package print

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestUnrestoredParts appears in the plan, in a dry run, in a refusal, at the end, and in the machine-readable output.
func TestUnrestoredParts(t *testing.T) {
	change := cloud.RecipeChange{
		From: "version", To: "generic", Adds: []cloud.RecipeField{{Kind: "extension", Name: "whole"}, {Kind: "extension", Name: "half", Unreadable: true}},
		Missing: []cloud.RecipeField{{Kind: "customData"}},
	}
	const half, none = "    ? protected settings of extension half  (lost if there were any: no Secret given)", "    ? customData  (lost: no Secret given)"
	for name, r := range map[string]Restore{
		"asked":   {},
		"dry run": {DryRun: true},
		"refused": {Refusals: []cloud.Refusal{{Reason: "PartMissing"}}},
		"done":    {Changed: true},
	} {
		r.Pool, r.Change = "pool1", change
		var text, object strings.Builder
		if err := WriteRestore(&text, "", r); err != nil {
			t.Fatal(err)
		}
		if err := WriteRestore(&object, output.JSON, r); err != nil {
			t.Fatal(err)
		}
		for where, message := range map[string]string{"plan": strings.Join(RestorePlan(r), "\n"), "text": text.String()} {
			if strings.Count(message, "    ? ") != 2 || !strings.Contains(message, half) || !strings.Contains(message, none) {
				t.Errorf("%s: the %s is\n%s", name, where, message)
			}
		}
		var reported struct{ Change cloud.RecipeChange }
		if err := json.Unmarshal([]byte(object.String()), &reported); err != nil || len(reported.Change.Missing) != 1 ||
			len(cloud.Unreadable(reported.Change.Adds)) != 1 {
			t.Errorf("%s: programs are shown %s (%v)", name, object.String(), err)
		}
	}
}
