package aws

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// statement of a policy. Source: "IAM JSON policy elements reference".
type statement struct {
	Sid, Effect      string
	Action, Resource []string
	Condition        map[string]map[string][]string `json:",omitempty"`
}

// Users replace the words in capitals.
const nodesRole, kaminoRole = "arn:aws:iam::ACCOUNT:role/ROLE-OF-THE-NODES", "arn:aws:iam::ACCOUNT:role/ROLE-OF-KAMINO"

// policy returns the smallest IAM policy, with a statement per feature, so that users can leave out features. EC2 and Auto
// Scaling have no narrower resource for reads and creations.
func policy(removal bool) ([]byte, error) {
	var all []statement
	for _, d := range declarations {
		if known := slices.ContainsFunc(all, func(s statement) bool { return s.Sid == d.sid }); known || d.sid == removeDonors && !removal {
			continue
		}
		resource := map[string]string{"PassTheNodesRole": nodesRole, "SeeOwnPermissions": kaminoRole}[d.sid]
		all = append(all, statement{Sid: d.sid, Resource: []string{cmp.Or(resource, anyResource)}})
	}
	return document(all, func(n need, sid string) bool { return n.sid == sid })
}

// PolicyByTags returns an IAM policy for changes only of groups, instances and launch templates with the tag kamino = enabled,
// and of resources that Kamino created.
func PolicyByTags() ([]byte, error) {
	on := func(sid, resources, operator, key string, values ...string) statement {
		s := statement{Sid: sid, Resource: strings.Fields(resources)}
		if operator != "" {
			s.Condition = map[string]map[string][]string{operator: {key: values}}
		}
		return s
	}
	const ec2, is, isUnset, ofResource, ofRequest = "arn:aws:ec2:*:*:", "StringEquals", "Null", "aws:ResourceTag/", "aws:RequestTag/"
	return document([]statement{
		on(look, anyResource, "", ""),
		on("TaggedPools", anyResource, is, ofResource+"kamino", "enabled"),
		on("NewRootVolumes", ec2+"replace-root-volume-task/* "+ec2+"volume/* "+ec2+"image/* "+ec2+"snapshot/*", "", ""),
		on("CopyDisks", ec2+"volume/*", "", ""),
		on("NewSnapshots", ec2+"snapshot/*", isUnset, ofRequest+tagSnapshot, "false"),
		on("NewImages", anyResource, isUnset, ofRequest+tagFamily, "false"),
		on("TagNewResources", anyResource, is, "ec2:CreateAction", "CreateSnapshot", "RegisterImage", "RunInstances"),
		on("OwnSnapshots", ec2+"snapshot/*", isUnset, ofResource+tagMachine, "false"),
		on("OwnImages", ec2+"image/*", isUnset, ofResource+tagFamily, "false"),
		on("OwnTrials", ec2+"instance/*", isUnset, ofResource+tagTrial, "false"),
		on("LaunchByGroupAndTrial", anyResource, "", ""),
		on("PassTheNodesRole", nodesRole, "", ""),
		on("SeeOwnPermissions", anyResource, "", ""),
	}, func(n need, sid string) bool { return slices.Contains(strings.Fields(n.byTags), sid) })
}

// document fills the statements with their actions.
func document(statements []statement, holds func(n need, sid string) bool) ([]byte, error) {
	for i := range statements {
		s := &statements[i]
		s.Effect = "Allow"
		for _, n := range needsWhere(func(n need) bool { return holds(n, s.Sid) }) {
			s.Action = append(s.Action, n.action)
		}
		slices.Sort(s.Action)
	}
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements}, "", "  ")
}
