package trouble

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// patchScaleSet is somebody who changes the pool's scale set by hand.
func (g *ground) patchScaleSet(properties map[string]any) {
	g.Helper()
	if status, document := request(g, http.MethodPatch, g.scaleSetPath(), map[string]any{"properties": properties}); status != http.StatusOK {
		g.Fatalf("PATCH %s: %d %v", g.scaleSetPath(), status, document)
	}
}

func (g *ground) setUpgrades(mode string) {
	g.Helper()
	g.patchScaleSet(map[string]any{"upgradePolicy": map[string]any{"mode": mode}})
}

// publishes waits until the capture's image is being made.
func (g *ground) publishes() {
	g.Helper()
	g.reaches("its image is being made", func(p *v1alpha1.Prototype) bool { return p.Status.Phase == v1alpha1.PhasePublishing })
}

// TestUpgradePolicyChangesWhileTheImageIsMade: the promotion would roll every node, and so would a rollback. That no
// node was rolled is also what this package's sandbox looks at when all tests are over.
func TestUpgradePolicyChangesWhileTheImageIsMade(t *testing.T) {
	for _, mode := range []string{"Automatic", "Rolling"} {
		t.Run(mode, func(t *testing.T) {
			name := map[string]string{"Automatic": "upauto", "Rolling": "uproll"}[mode]
			g := newGround(t, "name="+name+",nodes=2")
			before := g.look()
			capture := g.capture(g.nodes[0], today)
			g.publishes()
			g.setUpgrades(mode)
			capture.ends(t, 4, "UpgradePolicy"+mode, "set upgradePolicy.mode to Manual", "kamino promote "+g.pool.ScaleSet())
			g.failed("UpgradePolicy" + mode)
			g.settled()
			version := g.prototype().Spec.Version

			g.start("promote", g.pool.ScaleSet(), version).ends(t, 3, "nothing was changed", "set upgradePolicy.mode to Manual")
			before.Boots[g.nodes[0]]++
			if diff := cmp.Diff(before.Boots, g.look().Boots); diff != "" {
				t.Errorf("boots of the nodes (-want +got):\n%s", diff)
			}
			g.setUpgrades("Manual")
			g.start("promote", g.pool.ScaleSet(), version).ends(t, 0)
			if image := g.image(); image == "" || image[len(image)-len(version):] != version {
				t.Errorf("the recipe's image is %q", image)
			}
			g.settled()
		})
	}
}
