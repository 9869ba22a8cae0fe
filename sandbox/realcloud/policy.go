package realcloud

import (
	"encoding/json"
	"maps"
	"slices"
)

// statement of an IAM policy.
type statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string]string `json:",omitempty"`
}

// Policy is an IAM policy with what a run needs, limited to its tag.
func Policy(run string) ([]byte, error) {
	of := func(service string, effects ...effect) (all []string) {
		for _, action := range slices.Sorted(maps.Keys(rules)) {
			if r := rules[action]; (service == "" || r.service == service) && slices.Contains(effects, r.effect) {
				all = append(all, r.permission(action))
			}
		}
		return all
	}
	anything := []string{"*"}
	requested := map[string]string{"aws:RequestTag/" + TagRun: run}
	has := map[string]map[string]string{"StringEquals": {"aws:ResourceTag/" + TagRun: run}}
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{
		{Sid: "Read", Effect: "Allow", Action: of("", reads), Resource: anything},
		{Sid: "CreateWithTag", Effect: "Allow", Action: of("", creates), Resource: anything, Condition: map[string]map[string]string{"StringEquals": requested}},
		{Sid: "CreateFromTagged", Effect: "Allow", Action: of("ec2", creates), Resource: anything, Condition: has},
		{Sid: "LaunchWith", Effect: "Allow", Action: []string{"ec2:RunInstances"},
			Resource: []string{"arn:aws:ec2:*::image/*", "arn:aws:ec2:*:*:security-group/*"}},
		{Sid: "ReplaceRoot", Effect: "Allow", Action: []string{"ec2:CreateReplaceRootVolumeTask"},
			Resource: []string{"arn:aws:ec2:*:*:volume/*"}},
		{Sid: "TagWhatIsNew", Effect: "Allow", Action: []string{"ec2:CreateTags"}, Resource: anything, Condition: map[string]map[string]string{
			"StringEquals": requested, "StringLike": {"ec2:CreateAction": "*"}}},
		{Sid: "ChangeTagged", Effect: "Allow", Action: of("", changes), Resource: anything, Condition: has},
		{Sid: "FirstGroupOfTheAccount", Effect: "Allow", Action: []string{"iam:CreateServiceLinkedRole"}, Resource: anything,
			Condition: map[string]map[string]string{"StringEquals": {"iam:AWSServiceName": "autoscaling.amazonaws.com"}}},
	}}, "", "  ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
