package azure

import (
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestActionsAreDeclared: checks name declared actions only, and every use of the pool's resource group is checked.
func TestActionsAreDeclared(t *testing.T) {
	all := uses.Actions(func(cloud.Use) bool { return true })
	for _, action := range []string{
		joinSubnet, joinSecurity, joinBalancer, joinGroup, assignIdentity, readBalancer, rollingUpgradeRead, permissionRead, lockRead,
	} {
		if !slices.Contains(all, action) {
			t.Errorf("actions.yaml lacks %s", action)
		}
	}
	for _, u := range uses {
		if !slices.Contains([]string{"", cloud.ForInPlace, cloud.ForTrialApart, cloud.ForConsole, cloud.ForReboot, cloud.ForCopy, cloud.ForRebuild}, u.Feature) ||
			u.Where == "" && len(u.Kinds) == 0 {
			t.Errorf("a use with an unknown feature, or without a check: %+v", u)
		}
		for _, kind := range u.Kinds {
			if !slices.Contains([]string{"pool", "instance", "vm", "image"}, kind) {
				t.Errorf("%s: no check is for kind %s", u.For, kind)
			}
		}
	}
}
