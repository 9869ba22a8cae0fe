package aws

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestActionsAreDeclared: checks name declared actions only, and every statement of every use is in the policy.
func TestActionsAreDeclared(t *testing.T) {
	all := uses.Actions(func(cloud.Use) bool { return true })
	for _, action := range append(slices.Clone(dryRunActions), updateAction, attributeAction, uefiAction, passAction, simulateAction) {
		if !slices.Contains(all, action) {
			t.Errorf("actions.yaml lacks %s", action)
		}
	}
	text, err := PolicyByTags(cloud.ForInPlace, cloud.ForRebuild, cloud.ForWarmPool)
	if err != nil {
		t.Fatal(err)
	}
	var byTags struct{ Statement []statement }
	if err := json.Unmarshal(text, &byTags); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range byTags.Statement {
		if known[s.Sid] = true; len(s.Action) == 0 {
			t.Errorf("no use names statement %s", s.Sid)
		}
	}
	for _, u := range uses {
		for _, sid := range u.ByTags {
			if !known[sid] {
				t.Errorf("%s: PolicyByTags has no statement %s", u.For, sid)
			}
		}
		if len(u.ByTags) == 0 || u.Statement == "" || u.Where != "" ||
			!slices.Contains([]string{"", cloud.ForInPlace, cloud.ForTrialApart, cloud.ForConsole, cloud.ForReboot,
				cloud.ForCopy, cloud.ForRebuild, cloud.ForQuarantine, cloud.ForWarmPool, cloud.ForParameter}, u.Feature) {
			t.Errorf("a use without a statement, or with an unknown feature: %+v", u)
		}
		for _, kind := range u.Kinds {
			if !slices.Contains([]string{"group", "pool", "disk", "parameter"}, kind) {
				t.Errorf("%s: no check asks for kind %s", u.For, kind)
			}
		}
	}
}
