package aws

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// statement of a policy. Source: "IAM JSON policy elements reference".
type statement struct {
	Sid      string
	Effect   string
	Action   []string
	Resource string
}

// growAction is the action of growing a group, before a removal and after a promotion.
const growAction = "autoscaling:SetDesiredCapacity"

// policy returns the smallest IAM policy, with a statement per feature, so that users can leave out features. EC2 and Auto
// Scaling have no narrower resource for reads and creations. Users replace the words in capitals.
func policy(removal bool) ([]byte, error) {
	var looks []string
	writes := func(needs []need, of string) (actions []string) {
		for _, n := range needs {
			switch {
			case strings.Contains(n.action, ":Describe") || n.action == uefiAction:
				looks = append(looks, n.action)
			case n.purpose == of && n.action != growAction:
				actions = append(actions, n.action)
			}
		}
		slices.Sort(actions)
		return actions
	}
	allow := func(sid, resource string, actions ...string) statement {
		return statement{sid, "Allow", actions, resource}
	}
	all := []statement{
		allow("Capture", anyResource, writes(slices.Concat(groupNeeds, templateNeeds, diskNeeds), "")...),
		allow("GrowGroups", anyResource, growAction),
		allow("TryVersions", anyResource, append(writes(consoleNeeds, cloud.ForConsole), writes(trialNeeds, cloud.ForTrialApart)...)...),
		allow("RebuildNodes", anyResource, writes(rebuildNeeds, forRebuild)...),
	}
	if removal {
		all = append(all, allow("RemoveDonors", anyResource, writes(groupNeeds, cloud.ForRemoval)...))
	}
	slices.Sort(looks)
	all = append([]statement{allow("Look", anyResource, slices.Compact(looks)...)}, append(all,
		allow("PassTheNodesRole", "arn:aws:iam::ACCOUNT:role/ROLE-OF-THE-NODES", "iam:PassRole"),
		allow("SeeOwnPermissions", "arn:aws:iam::ACCOUNT:role/ROLE-OF-KAMINO", "iam:GetRole", "iam:SimulatePrincipalPolicy"))...)
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", all}, "", "  ")
}
