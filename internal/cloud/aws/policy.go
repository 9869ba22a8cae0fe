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

// growth is the action of growing a group, before a removal and after a promotion.
const growth = "autoscaling:SetDesiredCapacity"

// policy returns the smallest IAM policy with a statement per feature, so that you can leave out unused features. EC2 and
// Auto Scaling have no narrower resource for reads and for creating resources.
//
// Replace the words in capitals.
func policy(removal bool) ([]byte, error) {
	var looks []string
	writes := func(needs []need, of string) (actions []string) {
		for _, n := range needs {
			switch {
			case strings.Contains(n.action, ":Describe"):
				looks = append(looks, n.action)
			case n.of == of && n.action != growth:
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
		allow("Capture", everything, writes(slices.Concat(groupNeeds, templateNeeds, diskNeeds), "")...),
		allow("GrowGroups", everything, growth),
		allow("TryVersions", everything, writes(trialNeeds, cloud.ForTrialApart)...),
		allow("RebuildNodes", everything, writes(rebuildNeeds, forRebuild)...),
	}
	if removal {
		all = append(all, allow("RemoveDonors", everything, writes(groupNeeds, cloud.ForRemoval)...))
	}
	slices.Sort(looks)
	all = append([]statement{allow("Look", everything, slices.Compact(looks)...)}, append(all,
		allow("PassTheNodesRole", "arn:aws:iam::ACCOUNT:role/ROLE-OF-THE-NODES", "iam:PassRole"),
		allow("SeeOwnPermissions", "arn:aws:iam::ACCOUNT:role/ROLE-OF-KAMINO", "iam:SimulatePrincipalPolicy"))...)
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", all}, "", "  ")
}
