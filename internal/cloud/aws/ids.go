package aws

import (
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// providerPrefix is the beginning of Node.spec.providerID on AWS: "aws:///eu-central-1a/i-0123456789abcdef0". Sources:
// AWS's cloud controller manager and nodeadm.
const providerPrefix = "aws://"

// instanceID is EC2's ID of an instance: 8 hexadecimal digits until 2016, 17 since (EC2 User Guide, "Resource IDs").
var instanceID = regexp.MustCompile(`^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

// zoneRegion is the region at the beginning of a zone's name. Availability zones add a letter (us-gov-west-1a). Local and
// Wavelength zones add more (us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1).
var zoneRegion = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-[0-9]+)(?:[a-z]|-[a-z0-9-]+)$`)

// instance names an EC2 instance. The ID is unique in a region, and the zone contains the region.
type instance struct {
	region, zone, id string
}

func (i instance) String() string { return "instance " + i.id }

func (i instance) providerID() cloud.InstanceID {
	return cloud.InstanceID(providerPrefix + "/" + i.zone + "/" + i.id)
}

// group holds the parts of an Auto Scaling group's ARN. Names are case-sensitive, unlike names of Azure. unique
// distinguishes groups of the same name after a deletion.
type group struct {
	partition, region, account, unique, name string
}

func (g group) String() string { return "Auto Scaling group " + g.name }

// pool returns the ARN of the group, as in DescribeAutoScalingGroups.
func (g group) pool() cloud.PoolID {
	return cloud.PoolID(strings.Join([]string{"arn", g.partition, "autoscaling", g.region, g.account, "autoScalingGroup", g.unique,
		groupPrefix + g.name}, ":"))
}

// groupPrefix is the beginning of the last part of a group's ARN.
const groupPrefix = "autoScalingGroupName/"

// parseInstance parses Node.spec.providerID. Any ID that is not of EC2 is Unsupported, with a message for people.
func parseInstance(id cloud.InstanceID) (instance, error) {
	text, isAWS := strings.CutPrefix(string(id), providerPrefix+"/")
	if !isAWS {
		return instance{}, unsupported(string(id), "not the provider ID of an EC2 instance (aws:///ZONE/i-...): name a node that runs on AWS")
	}
	// IDs of Fargate end in /UUID/fargate-ADDRESS. Customers have no access to the disk.
	if strings.Contains(text, "/fargate-") {
		return instance{}, unsupported(string(id), "a Fargate node has no disk to capture: name a node of an Auto Scaling group")
	}
	zone, name, _ := strings.Cut(text, "/")
	region := zoneRegion.FindStringSubmatch(zone)
	if region == nil || !instanceID.MatchString(name) {
		return instance{}, unsupported(string(id), "no zone and EC2 instance in the provider ID (aws:///ZONE/i-...): check spec.providerID of the node")
	}
	return instance{region: region[1], zone: zone, id: name}, nil
}

// parsePool parses a pool's ID. The name is last and contains no colon (Auto Scaling API, CreateAutoScalingGroup).
func parsePool(id cloud.PoolID) (group, error) {
	parts := strings.Split(string(id), ":")
	if len(parts) == 8 && parts[0] == "arn" && parts[2] == "autoscaling" && parts[5] == "autoScalingGroup" {
		name, named := strings.CutPrefix(parts[7], groupPrefix)
		g := group{partition: parts[1], region: parts[3], account: parts[4], unique: parts[6], name: name}
		if named && g.partition != "" && g.region != "" && g.account != "" && g.unique != "" && g.name != "" {
			return g, nil
		}
	}
	return group{}, unsupported(string(id),
		"not the ARN of an Auto Scaling group (arn:aws:autoscaling:REGION:ACCOUNT:autoScalingGroup:ID:autoScalingGroupName/NAME): "+
			"copy the ARN from the output of `aws autoscaling describe-auto-scaling-groups`")
}

func unsupported(resource, message string) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: "read", Resource: resource, Message: message}
}
