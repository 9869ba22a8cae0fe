package print

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
)

// TestDeeds: each verb reports its effect, real or in a dry run, and names the unchanged nodes.
func TestDeeds(t *testing.T) {
	bad := map[string]string{cloud.TagQuarantined: "it panics"}
	back := history.Rollback{Pool: "p", From: "2", To: "1", Tags: bad, Nodes: []string{"a", "b"}}
	done := back
	done.Done = true
	noNodes := back
	noNodes.Nodes = []string{}
	unknown := back
	unknown.Nodes = nil
	one := back
	one.Nodes = []string{"a"}
	recipe := history.History{Pool: "p", Recipe: cloud.Recipe{Version: "3"}}
	promotion := history.Promotion{Pool: "p", Version: "3"}
	tried := promotion
	tried.Trial = "Passed at noon"
	there := promotion
	there.Done = true
	loses := cloud.RecipeChange{From: "generic", Removes: []cloud.RecipeField{{Kind: "customData"}}}
	for name, test := range map[string]struct {
		deed    ChangeResult
		changed bool
		says    []string
	}{
		"quarantine": {Marked("quarantine", history.Mark{Pool: "p", Version: "2", Tags: bad, Nodes: []string{"a"}, Prior: "1"}, false), true, []string{
			"Version 2 of pool p is quarantined: it panics", "1 node runs version 2 and does not change: a"}},
		"quarantine, dry, of the last": {Marked("quarantine", history.Mark{Pool: "p", Version: "2", Tags: bad, Nodes: []string{}}, true), false, []string{
			"Version 2 of pool p would be quarantined: it panics", "No node runs version 2.", "Pool p has no version left for a rollback."}},
		"unquarantine, already": {Marked("unquarantine", history.Mark{Pool: "p", Version: "2", Done: true}, false), false, []string{
			"Version 2 of pool p is already not quarantined."}},
		"delete-version": {Retired(history.Retirement{Pool: "p", Version: "2", Forgets: true}, false), true, []string{
			"Version 2 of pool p is being deleted.", "The nodes of version 2 are unknown.", "The quarantine is deleted too"}},
		"retire, dry": {Retired(history.Retirement{Pool: "p", Version: "2", Nodes: []string{"a", "b"}}, true), false, []string{
			"Version 2 of pool p would be deleted.", "2 nodes run version 2 and do not change: a, b"}},
		"promote": {Promoted(tried, loses, "ns/s", nil, false), true, []string{
			"Pool p now builds new nodes from version 3 instead of generic.", "The recipe lost customData.",
			"Its trial: Passed at noon.", "Secret ns/s keeps the recipe as it was before, as far as the cloud returns it.", "Running nodes do not change."}},
		"promote, from a version": {Promoted(history.Promotion{Pool: "p", Version: "3", FromVersion: "2"}, cloud.RecipeChange{From: "/galleries/p/2"},
			"", nil, false), true, []string{
			"Pool p now builds new nodes from version 3 instead of version 2.", "The version had no trial node.", "Running nodes do not change."}},
		"promote, dry, from nothing": {Promoted(promotion, cloud.RecipeChange{}, "", nil, true), false, []string{
			"Pool p would build new nodes from version 3 instead of no image.",
			"The version had no trial node.", "Running nodes do not change."}},
		"promote, Terraform": {Promoted(promotion, cloud.RecipeChange{From: "generic"}, "",
			[]cloud.Refusal{cloud.Refuse("TerraformManaged", "tag t names Terraform", "ignore image_id")}, false), true, []string{
			"Pool p now builds", "The version had no trial node.", "Running nodes do not change.", "Warning: tag t names Terraform. Remedy: ignore image_id."}},
		"promote, already": {Promoted(there, cloud.RecipeChange{}, "", nil, false), false, []string{"The recipe of pool p already names version 3."}},
		"rollback": {RolledBack(back, nil, false), true, []string{
			"Version 2 is quarantined: it panics", "Pool p now builds new nodes from version 1.", "2 nodes run version 2 and do not change: a, b"}},
		"rollback, already": {RolledBack(done, nil, false), false, []string{
			"Pool p is already rolled back", "If version 1 is bad too, name an older version: kamino rollback p --to VERSION"}},
		"rollback and rebuild": {RolledBack(back, &Pace{MaxUnavailable: 3}, false), true, []string{
			"Version 2 is quarantined: it panics", "Pool p now builds new nodes from version 1.",
			"2 nodes run version 2 and are rebuilt now from version 1, 3 at a time: a, b"}},
		"rollback and rebuild one": {RolledBack(one, &Pace{AllAtOnce: true}, false), true,
			[]string{"", "", "1 node runs version 2 and is rebuilt now from version 1, all at once: a"}},
		"rollback and rebuild, dry": {RolledBack(unknown, &Pace{MaxUnavailable: 1}, true), false,
			[]string{"would be quarantined", "would build",
				"The nodes of version 2 are not known yet; all nodes of the version would be rebuilt from version 1, 1 at a time."}},
		"rollback and rebuild, nothing": {RolledBack(noNodes, &Pace{MaxUnavailable: 1}, false), true, []string{"", "", "No node runs version 2."}},
		"rebuild": {Rebuilt(recipe, imagecount.Image{Name: "/1", Version: "1", Count: 2}, Pace{MaxUnavailable: 1}, false), false, []string{
			"2 nodes run 1, the oldest image of pool p: rebuilt now from version 3, 1 at a time."}},
		"rebuild, dry, of no version": {Rebuilt(recipe, imagecount.Image{Name: "generic", Count: 1}, Pace{MaxUnavailable: 1}, true), false, []string{
			"1 node runs generic, the oldest image of pool p: to be rebuilt from version 3, 1 at a time."}},
		"rebuild, nothing": {Rebuilt(recipe, imagecount.Image{}, Pace{}, false), false, []string{"All nodes of pool p already run version 3."}},
	} {
		if test.deed.Changed != test.changed || len(test.deed.Lines) != len(test.says) || test.deed.Pool != "p" {
			t.Errorf("%s: changed %t, %q", name, test.deed.Changed, test.deed.Lines)
			continue
		}
		for i, want := range test.says {
			if !strings.Contains(test.deed.Lines[i], want) {
				t.Errorf("%s: line %d is %q, want %q", name, i, test.deed.Lines[i], want)
			}
		}
		var out bytes.Buffer
		if err := WriteChangeResult(&out, output.Text, test.deed); err != nil ||
			strings.HasPrefix(out.String(), "Dry run: nothing is changed.\n") != test.deed.DryRun {
			t.Errorf("%s: %v, %s", name, err, &out)
		}
	}
}

// TestUnfinished reports the progress and the rest, in a stable order.
func TestUnfinished(t *testing.T) {
	for name, test := range map[string]struct {
		deed       ChangeResult
		done, left string
	}{
		"some": {ChangeResult{Verb: "rollback", Pool: "p", Rebuilt: []string{"a"}, NotRebuilt: map[string]string{"c": "is full", "b": "is gone"}},
			"pool p is rolled back, and 1 node was rebuilt, but not all", "\n  node b is gone\n  node c is full"},
		"none": {ChangeResult{Verb: "rebuild", Pool: "p", Waiting: "kured reboots d"},
			"pool p has nodes of its oldest image, but no node was rebuilt", "\n  the other nodes wait: kured reboots d"},
		"quiet": {ChangeResult{Verb: "rollback", Pool: "p"}, "pool p is rolled back, but no node was rebuilt", ""},
	} {
		if done, left := test.deed.Unfinished(); done != test.done || left != test.left {
			t.Errorf("%s: %q, %q", name, done, left)
		}
	}
}
