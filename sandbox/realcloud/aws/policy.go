package aws

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// statement of an IAM policy.
type statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string]string `json:",omitempty"`
}

// policyOf is an IAM policy with what a run needs, limited to its tag.
func policyOf(run string) ([]byte, error) {
	of := func(service string, effects ...realcloud.Effect) (all []string) {
		for _, action := range slices.Sorted(maps.Keys(rules)) {
			if r := rules[action]; (service == "" || r.service == service) && slices.Contains(effects, r.effect) {
				all = append(all, r.permission(action))
			}
		}
		return all
	}
	anything := []string{"*"}
	requested := map[string]string{"aws:RequestTag/" + realcloud.TagRun: run}
	has := map[string]map[string]string{"StringEquals": {"aws:ResourceTag/" + realcloud.TagRun: run}}
	return json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{
		{Sid: "Read", Effect: "Allow", Action: of("", realcloud.Reads), Resource: anything},
		{Sid: "CreateWithTag", Effect: "Allow", Action: of("", realcloud.Creates), Resource: anything, Condition: map[string]map[string]string{"StringEquals": requested}},
		{Sid: "CreateFromTagged", Effect: "Allow", Action: of("ec2", realcloud.Creates), Resource: anything, Condition: has},
		{Sid: "LaunchWith", Effect: "Allow", Action: []string{"ec2:RunInstances"},
			Resource: []string{"arn:aws:ec2:*::image/*", "arn:aws:ec2:*:*:security-group/*"}},
		{Sid: "ReplaceRoot", Effect: "Allow", Action: []string{"ec2:CreateReplaceRootVolumeTask"},
			Resource: []string{"arn:aws:ec2:*:*:volume/*"}},
		{Sid: "TagWhatIsNew", Effect: "Allow", Action: []string{"ec2:CreateTags"}, Resource: anything, Condition: map[string]map[string]string{
			"StringEquals": requested, "StringLike": {"ec2:CreateAction": "*"}}},
		{Sid: "ChangeTagged", Effect: "Allow", Action: of("", realcloud.Changes), Resource: anything, Condition: has},
		{Sid: "FirstGroupOfTheAccount", Effect: "Allow", Action: []string{"iam:CreateServiceLinkedRole"}, Resource: anything,
			Condition: map[string]map[string]string{"StringEquals": {"iam:AWSServiceName": "autoscaling.amazonaws.com"}}},
	}}, "", "  ")
}
