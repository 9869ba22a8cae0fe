package azure

import (
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestActionsOnInstances: the kind of the captured VM decides, not the owner of the recipes.
func TestActionsOnInstances(t *testing.T) {
	const scope = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
	const ofSet, ofVM = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/powerOff/action", "Microsoft.Compute/virtualMachines/powerOff/action"
	for name, c := range map[string]struct {
		apart      bool
		id         cloud.InstanceID
		want, lack string
	}{
		"of a machine pool":    {true, scope + "virtualMachineScaleSets/n/virtualMachines/3", ofSet, ofVM},
		"of a machine":         {true, scope + "virtualMachines/m", ofVM, ofSet},
		"of a pool of Azure's": {false, scope + "virtualMachineScaleSets/n/virtualMachines/3", ofSet, ofVM},
	} {
		p := newImageProvider(&account{}, c.apart)
		ref, err := p.parse(c.id)
		if err != nil {
			t.Fatal(err)
		}
		actions := slices.Concat(diskActions("", ref.isStandalone()), diskActions(cloud.ForInPlace, ref.isStandalone()))
		if !slices.Contains(actions, c.want) || slices.Contains(actions, c.lack) || !slices.Contains(actions, "Microsoft.Compute/disks/beginGetAccess/action") {
			t.Errorf("%s: %v", name, actions)
		}
		m := withoutPool(cloud.Instance{Pool: "its scale set", BuiltFrom: "2026.01.09"}, p.externalPools)
		if lent := m.Pool == "" && m.BuiltFrom == ""; lent != c.apart {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
