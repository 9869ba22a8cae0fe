package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/selection"
)

// crowdedCase is a pool with so many images, the recipe's image included, and a node for each other image.
func crowdedCase(images int) rebuildCase {
	c := rebuildCase{
		pool: "pool1", policy: "all", atImages: 8, recipe: cloud.Recipe{Image: "newest", Version: "2026.03.14"},
		calendar: schedule.Answer{Allowed: true}, maxAtOnce: 1,
	}
	var instances []cloud.Instance
	for i := range images - 1 {
		instances = append(instances, cloud.Instance{ID: cloud.InstanceID(fmt.Sprint(i)), Image: fmt.Sprintf("v%d", i),
			BuiltFrom: fmt.Sprintf("2026.03.%02d", i+1)})
	}
	c.imageCount = imagecount.Of(c.recipe, instances, 10)
	return c
}

func TestWhetherToRebuild(t *testing.T) {
	for _, test := range []struct {
		name   string
		images int
		change func(c *rebuildCase)
		reason string
		words  string
	}{
		{"many", 8, nil, OldestImage,
			"the nodes and the recipe of pool pool1 use 8 different images, and nodes of version 2026.03.01, the oldest, are rebuilt with version 2026.03.14"},
		{"more", 10, nil, OldestImage, "10 different images"},
		{"few", 7, nil, selection.UpToDate, "use 7 different images; rebuilds of the oldest begin at 8 (spec.rebuild.atImages)"},
		{"few are enough", 3, func(c *rebuildCase) { c.atImages = 3 }, OldestImage, "3 different images"},
		{"not counted", 8, func(c *rebuildCase) { c.imageCount = imagecount.Count{} }, NotCounted, "not counted yet"},
		{"the cloud can't", 8, func(c *rebuildCase) { c.unable = true }, string(cloud.Unsupported), "cannot rebuild nodes: remove spec.rebuild from policy all"},
		{"no node is old", 1, func(c *rebuildCase) { c.atImages = 1 }, selection.UpToDate, "1 different image;"},
		{"suspended", 8, func(c *rebuildCase) { c.suspended = true }, v1alpha1.PolicySuspended, "policy all is suspended"},
		{"dry run", 8, func(c *rebuildCase) { c.dryRun = true }, v1alpha1.PolicyDryRun, "would be rebuilt, but policy all has spec.dryRun"},
		{"one is under way", 8, func(c *rebuildCase) { c.held = []string{"node a"} }, Rebuilding, "node a of pool pool1 is being rebuilt"},
		{"one is under way though suspended", 8, func(c *rebuildCase) { c.held, c.suspended = []string{"node a"}, true }, Rebuilding, "node a"},
		{"a capture runs", 8, func(c *rebuildCase) { c.inFlight = "pool1-2026.03.14" }, selection.CaptureInFlight,
			"prototype pool1-2026.03.14 is capturing pool pool1"},
		{"a capture begins", 8, func(c *rebuildCase) { c.capture = true }, selection.CaptureInFlight, "about to begin"},
		{"outside the window", 8, func(c *rebuildCase) { c.calendar = schedule.Answer{Reason: schedule.OutsideSchedule} },
			schedule.OutsideSchedule, "allows no rebuild"},
		{"a blackout", 8, func(c *rebuildCase) { c.calendar = schedule.Answer{Reason: schedule.OutsideSchedule} }, schedule.OutsideSchedule, "allows no rebuild"},
		{"others hold nodes", 8, func(c *rebuildCase) { c.holding = 1 }, Queued,
			"the limit of policy all is reached: 1 reserved nodes in the cluster (spec.maxConcurrent)"},
		{"there is room beside others", 8, func(c *rebuildCase) { c.holding, c.maxAtOnce = 1, 2 }, OldestImage, ""},
		{"the recipe is not ours", 8, func(c *rebuildCase) {
			c.refusals = []cloud.Refusal{cloud.Refuse(history.RecipeNotOurs, "it is none of ours", "capture a node first")}
		}, history.RecipeNotOurs, "capture a node first"},
	} {
		c := crowdedCase(test.images)
		if test.change != nil {
			test.change(&c)
		}
		wanted, decision := c.decide()
		if wanted != (test.reason == OldestImage) || decision.Reason != test.reason || !strings.Contains(decision.Message, test.words) {
			t.Errorf("%s: wanted %t, %+v", test.name, wanted, decision)
		}
	}
}

// behindCase is a pool without a limit of images, whose current version is two days old.
func behindCase(images int) rebuildCase {
	c := crowdedCase(images)
	c.imageCount.Limit = 0
	c.now = time.Date(2026, 3, 16, 12, 0, 0, 0, time.UTC)
	c.builtAt = c.now.Add(-48 * time.Hour)
	c.outdated = v1alpha1.RebuildSettings{Outdated: &v1alpha1.OutdatedSettings{PerHour: 20}}.Defaulted().Outdated
	c.maxAtOnce = 3
	return c
}

func TestRebuildOfOutdatedNodes(t *testing.T) {
	held := func(c *rebuildCase) {
		c.held, c.holding, c.proven, c.startedAt = []string{"node a"}, 1, true, c.now.Add(-3*time.Minute)
	}
	for _, test := range []struct {
		name   string
		images int
		change func(c *rebuildCase)
		reason string
		words  string
	}{
		{"outdated", 3, nil, OutdatedNodes,
			"nodes of pool pool1 are not of version 2026.03.14: nodes of version 2026.03.01, the oldest, are rebuilt, at most 20 per hour"},
		{"all are current", 1, nil, selection.UpToDate, "all nodes of pool pool1 have the image of the recipe"},
		{"not counted", 3, func(c *rebuildCase) { c.imageCount = imagecount.Count{} }, NotCounted, "not counted yet"},
		{"too young", 3, func(c *rebuildCase) { c.builtAt = c.now.Add(-24*time.Hour + time.Second) }, schedule.TooSoon,
			"version 2026.03.14 of pool pool1 is younger than 1d"},
		{"just old enough", 3, func(c *rebuildCase) { c.builtAt = c.now.Add(-24 * time.Hour) }, OutdatedNodes, ""},
		{"too young, and near the limit", 8, func(c *rebuildCase) { c.builtAt, c.imageCount.Limit = c.now, 10 }, OldestImage, ""},
		{"the first is under way", 3, func(c *rebuildCase) { held(c); c.proven = false }, Rebuilding, "node a"},
		{"a second one", 3, held, OutdatedNodes, ""},
		{"one too soon", 3, func(c *rebuildCase) { held(c); c.startedAt = c.now.Add(-time.Minute) }, Waiting,
			"the limit is 20 rebuilds per hour (spec.rebuild.outdated.perHour)"},
		{"as many as may be", 3, func(c *rebuildCase) { held(c); c.holding = 3 }, Queued, "spec.maxConcurrent"},
		{"one failed, or is a person's", 3, func(c *rebuildCase) { held(c); c.foreign = true }, Rebuilding, "node a"},
		{"a capture waits", 3, func(c *rebuildCase) { held(c); c.capture = true }, selection.CaptureInFlight, ""},
		{"the pool rolled back", 3, func(c *rebuildCase) { c.openRollback = &cloud.Refusal{Reason: RolledBack, Message: "rolled back"} },
			RolledBack, "rolled back"},
		{"its nodes do not join", 3, func(c *rebuildCase) { c.notJoining = true }, string(joinhealth.Failing), "no node is rebuilt from the version"},
		{"the cloud can't", 3, func(c *rebuildCase) { c.unable = true }, string(cloud.Unsupported), "cannot rebuild nodes"},
		{"dry run", 3, func(c *rebuildCase) { c.dryRun = true }, v1alpha1.PolicyDryRun, "would be rebuilt"},
		{"suspended", 3, func(c *rebuildCase) { c.suspended = true }, v1alpha1.PolicySuspended, ""},
	} {
		c := behindCase(test.images)
		if test.change != nil {
			test.change(&c)
		}
		wanted, decision := c.decide()
		if wanted != (test.reason == OutdatedNodes || test.reason == OldestImage) || decision.Reason != test.reason ||
			!strings.Contains(decision.Message, test.words) {
			t.Errorf("%s: wanted %t, %+v", test.name, wanted, decision)
		}
	}
}

// TestNothingIsRebuiltPastAReason: Kamino wants a rebuild only without any reason against the rebuild.
func TestNothingIsRebuiltPastAReason(t *testing.T) {
	for bits := range 1 << 9 {
		on := func(n int) bool { return bits>>n&1 == 1 }
		c := crowdedCase(8)
		if on(0) {
			c = crowdedCase(7)
		}
		if on(1) {
			c.held = []string{"node a"}
		}
		if on(2) {
			c.inFlight = "p"
		}
		c.capture, c.suspended, c.dryRun, c.calendar.Allowed = on(3), on(4), on(5), !on(6)
		if on(7) {
			c.holding = 1
		}
		if on(8) {
			c.refusals = []cloud.Refusal{{Reason: history.VersionQuarantined, Message: "bad"}}
		}
		wanted, decision := c.decide()
		if wanted != (bits == 0) {
			t.Errorf("%09b: wanted %t, %+v", bits, wanted, decision)
		}
		if !on(6) && decision.Reason == "" || decision.Message == "" {
			t.Errorf("%09b: %+v", bits, decision)
		}
	}
}
