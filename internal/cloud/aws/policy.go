package aws

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// statement of a policy. Source: "IAM JSON policy elements reference".
type statement struct {
	Sid, Effect      string
	Action, Resource []string
	Condition        conditions `json:",omitempty"`
}

// conditions are values by operator and key.
type conditions map[string]map[string][]string

// Users replace the words in capitals.
const nodesRole, kaminoRole = "arn:aws:iam::ACCOUNT:role/ROLE-OF-THE-NODES", "arn:aws:iam::ACCOUNT:role/ROLE-OF-KAMINO"

// look is the statement of reads, and promote that of changes of a group.
const look, promote = "Look", "Promote"

// narrow are the statements on disks, snapshots, images and instances of Kamino's own. Both policies have them: a credential that tags
// or attaches what others made could copy any disk.
func narrow() []statement {
	// Not verified on AWS, permissions: `CreateVolume` compares the tags of the snapshot with conditions.
	return []statement{
		{Sid: "CopyDisks", Resource: ofEC2("volume")},
		{Sid: "NewSnapshots", Resource: ofEC2("snapshot"), Condition: is("Null", ofRequest+tagSnapshot, "false")},
		{Sid: "NewImages", Resource: []string{anyResource}, Condition: is("Null", ofRequest+tagFamily, "false")},
		{Sid: "TagNewResources", Resource: []string{anyResource}, Condition: is("StringEquals", "ec2:CreateAction", "CreateSnapshot", "RegisterImage",
			"RunInstances", "CreateVolume")},
		{Sid: "OwnSnapshots", Resource: ofEC2("snapshot"), Condition: is("Null", ofResource+tagMachine, "false")},
		{Sid: "OwnImages", Resource: ofEC2("image"), Condition: is("Null", ofResource+tagFamily, "false")},
		{Sid: "OwnTrials", Resource: ofEC2("instance"), Condition: is("Null", ofResource+tagTrial, "false")},
		{Sid: "OwnWorkshops", Resource: ofEC2("instance"), Condition: is("Null", ofResource+cloud.TagWorkshop, "false")},
		{Sid: "NewCopies", Resource: ofEC2("volume"), Condition: is("Null", ofRequest+tagCopy, "false")},
		{Sid: "Parameter", Resource: []string{"arn:aws:ssm:*:*:parameter" + parameterPrefix + "*"}},
		{Sid: "OwnCopies", Resource: ofEC2("volume"), Condition: is("Null", ofResource+tagCopy, "false")},
	}
}

// keepsSize adds the condition that a request changes no limit of a group's size.
func keepsSize(also conditions) conditions {
	// Not verified on AWS, permissions: IAM knows a size only in requests that set it.
	all := conditions{"Null": {"autoscaling:MinSize": {"true"}, "autoscaling:MaxSize": {"true"}}}
	maps.Copy(all, also)
	return all
}

const ofResource, ofRequest = "aws:ResourceTag/", "aws:RequestTag/"

// is returns a condition on a key.
func is(operator, key string, values ...string) conditions {
	return conditions{operator: {key: values}}
}

// ofEC2 returns the ARNs of all resources of some kinds.
func ofEC2(kinds ...string) (arns []string) {
	for _, kind := range kinds {
		arns = append(arns, "arn:aws:ec2:*:*:"+kind+"/*")
	}
	return arns
}

// Policy returns the IAM policy for pools without tags. Users can leave out a feature: all statements that begin with its name.
func Policy(powers ...string) ([]byte, error) {
	granted := uses.Granted(powers...)
	var all []statement
	for _, u := range granted {
		for _, s := range statementsOf(u) {
			known := slices.ContainsFunc(all, func(have statement) bool { return have.Sid == s.Sid })
			if !known {
				all = append(all, s)
			}
		}
	}
	return document(granted, all, func(u cloud.Use, sid string) bool {
		return slices.ContainsFunc(statementsOf(u), func(s statement) bool { return s.Sid == sid })
	})
}

// statementsOf returns the statements of a use in the policy for pools without tags, narrow where a pool's own tags are not needed for it.
func statementsOf(u cloud.Use) (all []statement) {
	for _, s := range narrow() {
		if slices.Contains(u.ByTags, s.Sid) {
			s.Sid = u.Statement + s.Sid
			all = append(all, s)
		}
	}
	if len(all) > 0 {
		return all
	}
	resource := map[string]string{"PassTheNodesRole": nodesRole, "SeeOwnPermissions": kaminoRole}[u.Statement]
	only := statement{Sid: u.Statement, Resource: []string{cmp.Or(resource, anyResource)}}
	if u.Statement == promote {
		only.Condition = keepsSize(nil)
	}
	return []statement{only}
}

// PolicyByTags returns an IAM policy that allows changes only of groups, instances and launch templates with the tag
// kamino = enabled, and of resources that Kamino created.
func PolicyByTags(powers ...string) ([]byte, error) {
	all, tagged := []string{anyResource}, is("StringEquals", ofResource+"kamino", "enabled")
	return document(uses.Granted(powers...), slices.Concat([]statement{
		{Sid: look, Resource: all},
		{Sid: "TaggedPools", Resource: all, Condition: tagged},
		{Sid: "Tagged" + promote, Resource: all, Condition: keepsSize(tagged)},
		// Not verified on AWS, permissions: the replacement of a root volume asks for the action on instance, task, volume and image.
		{Sid: "NewRootVolumes", Resource: ofEC2("replace-root-volume-task", "volume", "image", "snapshot")},
	}, narrow(), []statement{
		{Sid: "LaunchByGroupAndTrial", Resource: all},
		{Sid: "PassTheNodesRole", Resource: []string{nodesRole}},
		{Sid: "SeeOwnPermissions", Resource: all},
	}), func(u cloud.Use, sid string) bool { return slices.Contains(u.ByTags, sid) })
}

// document fills the statements with the actions of the uses.
func document(granted cloud.Uses, statements []statement, has func(u cloud.Use, sid string) bool) ([]byte, error) {
	for i := range statements {
		s := &statements[i]
		s.Effect, s.Action = "Allow", granted.Actions(func(u cloud.Use) bool { return has(u, s.Sid) })
		slices.Sort(s.Action)
	}
	statements = slices.DeleteFunc(statements, func(s statement) bool { return len(s.Action) == 0 })
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements}, "", "  ")
}
