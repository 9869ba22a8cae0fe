package history

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/cloud"
)

func TestNotes(t *testing.T) {
	at := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC)
	recipe := cloud.Recipe{Image: "image/3", Version: v3}
	for name, test := range map[string]struct {
		history History
		want    []string
	}{
		"a quiet pool": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current}}},
			nil,
		},
		"no versions": {
			History{Pool: "pool1", Recipe: cloud.Recipe{Image: "ubuntu:2204"}, Others: []string{"a"}},
			[]string{"Pool pool1 has no versions yet; the recipe names ubuntu:2204."},
		},
		"no versions and no image": {
			History{Pool: "pool1"},
			[]string{"Pool pool1 has no versions yet; the recipe names -."},
		},
		"an image from elsewhere": {
			History{Pool: "pool1", Recipe: cloud.Recipe{Image: "ubuntu:2204"}, Versions: []Version{{Version: v1, Use: Older}}},
			[]string{"The recipe of pool pool1 names ubuntu:2204, which is not a version of the pool."},
		},
		"a missing version": {
			History{Pool: "pool1", Recipe: recipe, Gone: &cloud.Refusal{Message: "the recipe names a version that is gone"}},
			[]string{"The recipe names a version that is gone."},
		},
		"a saved recipe": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current, SavedRecipe: "kamino-system/saved"}}},
			[]string{"Secret kamino-system/saved keeps the recipe as it was before version 2026.03.03. " +
				"To restore: `kamino restore pool1 --version 2026.03.03`."},
		},
		"an error of the cloud in two lines": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current}, {Version: v2, Use: Failed, Error: "no\n quota"}}},
			[]string{"Version 2026.03.02: no quota"},
		},
		"nodes of other images": {
			History{Pool: "pool1", Recipe: recipe, Others: []string{"a", "b"}, Versions: []Version{{Version: v3, Use: Current}}},
			[]string{"2 nodes run none of these versions."},
		},
		"a node of another image": {
			History{Pool: "pool1", Recipe: recipe, Others: []string{"a"}, Versions: []Version{{Version: v3, Use: Current}}},
			[]string{"1 node runs none of these versions."},
		},
		"a bad version in use": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current, Quarantined: "no network", Nodes: []string{"a"}}}},
			[]string{
				"Version 2026.03.03 is quarantined: no network",
				"New nodes still use the quarantined version 2026.03.03: run `kamino rollback pool1`.",
				"1 node runs the quarantined version 2026.03.03: a",
			},
		},
		"a bad version of many nodes": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{
				{Version: v3, Use: Current}, {Version: v2, Use: Quarantined, Quarantined: "x", Nodes: strings.Fields("a b c d e f g h i j k")},
			}},
			[]string{
				"Version 2026.03.02 is quarantined: x",
				"11 nodes run the quarantined version 2026.03.02: a, b, c, d, e, f, g, h, i, j and 1 more",
			},
		},
		"a bad version without nodes": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current}, {Version: v2, Use: Quarantined, Quarantined: "x"}}},
			[]string{"Version 2026.03.02 is quarantined: x"},
		},
		"an automatic rollback": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current}}, AutoRollbacks: []AutoRollback{
				{Version: "2026.03.04", To: v3, At: at, Why: "2 nodes did not join", Bad: true, Arrived: true},
			}},
			[]string{"Pool pool1 rolled back automatically from version 2026.03.04 to 2026.03.03, and the version is quarantined: 2 nodes did not join; " +
				"captures stay stopped until you acknowledge the rollback: `kamino acknowledge pool1`."},
		},
		"an acknowledged rollback": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current}}, AutoRollbacks: []AutoRollback{
				{Version: "2026.03.04", To: v3, At: at, Why: "x", Acknowledged: at},
			}},
			nil,
		},
		"captures": {
			History{Pool: "pool1", Recipe: recipe, Versions: []Version{{Version: v3, Use: Current}}, Captures: []Capture{
				{Prototype: "pool1-2026.03.04", Version: "2026.03.04", Donor: "a"},
				{Prototype: "pool1-2026.03.05", Version: "2026.03.05", Donor: "b", AwaitsPromotion: true},
				{Prototype: "pool1-2026.03.07", Version: "2026.03.07", Donor: "d", Progress: "replicating 68%"},
				{Prototype: "pool1-2026.03.06", Version: "2026.03.06", Donor: "c", AwaitsPromotion: true, HandOver: "run kops"},
			}},
			[]string{
				"Prototype pool1-2026.03.04 is capturing node a as version 2026.03.04.",
				"Version 2026.03.05 waits for approval: run `kamino promote pool1 2026.03.05`.",
				"Prototype pool1-2026.03.07 is capturing node d as version 2026.03.07: replicating 68%.",
				"Version 2026.03.06 is handed over: run kops.",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.history.Notes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
