package aws

import (
	"cmp"
	"encoding/json"
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

// look is the statement of reads.
const look = "Look"

// policy returns the smallest IAM policy, with a statement per feature, so that users can leave out features. EC2 and Auto
// Scaling have no narrower resource for reads and creations.
func policy(removal bool) ([]byte, error) {
	var all []statement
	for _, u := range uses {
		if known := slices.ContainsFunc(all, func(s statement) bool { return s.Sid == u.Statement }); known || u.Statement == "RemoveDonors" && !removal {
			continue
		}
		resource := map[string]string{"PassTheNodesRole": nodesRole, "SeeOwnPermissions": kaminoRole}[u.Statement]
		all = append(all, statement{Sid: u.Statement, Resource: []string{cmp.Or(resource, anyResource)}})
	}
	return document(all, func(u cloud.Use, sid string) bool { return u.Statement == sid })
}

// PolicyByTags returns an IAM policy for changes only of groups, instances and launch templates with the tag kamino = enabled,
// and of resources that Kamino created.
func PolicyByTags() ([]byte, error) {
	all, is := []string{anyResource}, func(operator, key string, values ...string) conditions { return conditions{operator: {key: values}} }
	ofEC2 := func(kinds ...string) (arns []string) {
		for _, kind := range kinds {
			arns = append(arns, "arn:aws:ec2:*:*:"+kind+"/*")
		}
		return arns
	}
	const ofResource, ofRequest = "aws:ResourceTag/", "aws:RequestTag/"
	return document([]statement{
		{Sid: look, Resource: all},
		{Sid: "TaggedPools", Resource: all, Condition: is("StringEquals", ofResource+"kamino", "enabled")},
		// Not verified on AWS, permissions: the replacement of a root volume asks for the action on instance, task, volume and image.
		{Sid: "NewRootVolumes", Resource: ofEC2("replace-root-volume-task", "volume", "image", "snapshot")},
		{Sid: "CopyDisks", Resource: ofEC2("volume")},
		{Sid: "NewSnapshots", Resource: ofEC2("snapshot"), Condition: is("Null", ofRequest+tagSnapshot, "false")},
		{Sid: "NewImages", Resource: all, Condition: is("Null", ofRequest+tagFamily, "false")},
		{Sid: "TagNewResources", Resource: all, Condition: is("StringEquals", "ec2:CreateAction", "CreateSnapshot", "RegisterImage", "RunInstances",
			"CreateVolume")},
		{Sid: "OwnSnapshots", Resource: ofEC2("snapshot"), Condition: is("Null", ofResource+tagMachine, "false")},
		{Sid: "OwnImages", Resource: ofEC2("image"), Condition: is("Null", ofResource+tagFamily, "false")},
		{Sid: "OwnTrials", Resource: ofEC2("instance"), Condition: is("Null", ofResource+tagTrial, "false")},
		{Sid: "OwnWorkshops", Resource: ofEC2("instance"), Condition: is("Null", ofResource+cloud.TagWorkshop, "false")},
		// Not verified on AWS, permissions: `CreateVolume` asks for the action on the new volume and on the snapshot.
		{Sid: "NewCopies", Resource: ofEC2("volume"), Condition: is("Null", ofRequest+tagCopy, "false")},
		{Sid: "OwnCopies", Resource: ofEC2("volume"), Condition: is("Null", ofResource+tagCopy, "false")},
		{Sid: "LaunchByGroupAndTrial", Resource: all},
		{Sid: "PassTheNodesRole", Resource: []string{nodesRole}},
		{Sid: "SeeOwnPermissions", Resource: all},
	}, func(u cloud.Use, sid string) bool { return slices.Contains(u.ByTags, sid) })
}

// document fills the statements with their actions.
func document(statements []statement, has func(u cloud.Use, sid string) bool) ([]byte, error) {
	for i := range statements {
		s := &statements[i]
		s.Effect, s.Action = "Allow", uses.Actions(func(u cloud.Use) bool { return has(u, s.Sid) })
		slices.Sort(s.Action)
	}
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", statements}, "", "  ")
}
