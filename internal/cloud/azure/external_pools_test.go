package azure

import (
	"slices"
	"strings"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestActionsOnInstances: the kind of the captured VM decides, not the owner of the recipes. A workshop of another package is a standalone
// VM, also that of a machine pool. A donor whose disk is copied keeps its power.
func TestActionsOnInstances(t *testing.T) {
	const scope = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
	const ofSet, ofVM, attach = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/", "Microsoft.Compute/virtualMachines/", "attachDetachDataDisks/action"
	for name, c := range map[string]struct {
		apart                    bool
		id                       cloud.InstanceID
		want, lack               string
		copyWants, copiesWithout []string
	}{
		"of a machine pool": {true, scope + "virtualMachineScaleSets/n/virtualMachines/3", ofSet, ofVM,
			[]string{ofSet + "read", ofVM + "read", ofVM + attach}, []string{ofSet + attach}},
		"of a machine": {true, scope + "virtualMachines/m", ofVM, ofSet, []string{ofVM + "read", ofVM + attach}, []string{ofSet + "read", ofSet + attach}},
		"of a pool of Azure's": {false, scope + "virtualMachineScaleSets/n/virtualMachines/3", ofSet, ofVM,
			[]string{ofSet + "read", ofSet + attach}, []string{ofVM + "read", ofVM + attach}},
	} {
		p := newImageProvider(&account{}, c.apart)
		ref, err := p.parse(c.id)
		if err != nil {
			t.Fatal(err)
		}
		inPlace, copies := p.actionsOn(ref, false), p.actionsOn(ref, true)
		for _, power := range []string{"powerOff/action", "start/action"} {
			// No VM of Cluster API is captured in place.
			if slices.Contains(inPlace, c.want+power) == ref.isStandalone() || slices.Contains(inPlace, c.lack+power) || slices.ContainsFunc(copies, func(a string) bool {
				return strings.HasSuffix(a, power)
			}) {
				t.Errorf("%s: %v, and by copy %v", name, inPlace, copies)
			}
		}
		lacks := slices.DeleteFunc(append(c.copyWants, "Microsoft.Compute/disks/write", "Microsoft.Compute/disks/delete", "Microsoft.Compute/disks/beginGetAccess/action"),
			func(a string) bool { return slices.Contains(copies, a) })
		if len(lacks) > 0 || slices.ContainsFunc(copies, func(a string) bool { return slices.Contains(c.copiesWithout, a) }) {
			t.Errorf("%s: a capture by copy needs %v, without %v", name, copies, lacks)
		}
		if sorted := slices.Sorted(slices.Values(copies)); len(slices.Compact(sorted)) != len(copies) {
			t.Errorf("%s: an action is named twice: %v", name, copies)
		}
		if p.CopiesOnRequest() == c.apart {
			t.Errorf("%s: copies on request: %t", name, p.CopiesOnRequest())
		}
		m := withoutPool(cloud.Instance{Pool: "its scale set", BuiltFrom: "2026.01.09"}, p.externalPools)
		if lent := m.Pool == "" && m.BuiltFrom == ""; lent != c.apart {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
