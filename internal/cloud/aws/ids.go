package aws

import (
	"regexp"
	"strings"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// providerPrefix opens Node.spec.providerID on AWS: "aws:///eu-central-1a/i-0123456789abcdef0", written by AWS's cloud
// controller manager and by nodeadm.
const providerPrefix = "aws://"

// instanceID is EC2's own name of an instance: 8 hexadecimal digits until 2016, 17 since (EC2 User Guide, "Resource IDs").
var instanceID = regexp.MustCompile(`^i-(?:[0-9a-f]{8}|[0-9a-f]{17})$`)

// zoneRegion is the region at the beginning of a zone's name. Availability zones add a letter to it (us-gov-west-1a),
// local and wavelength zones more than that (us-west-2-lax-1a, us-east-1-wl1-bos-wlz-1).
var zoneRegion = regexp.MustCompile(`^([a-z]+(?:-[a-z]+)+-[0-9]+)(?:[a-z]|-[a-z0-9-]+)$`)

// instance names an EC2 instance. Its ID alone is unique in a region; the zone tells the region.
type instance struct {
	region, zone, id string
}

func (i instance) String() string { return "instance " + i.id }

func (i instance) providerID() cloud.InstanceID {
	return cloud.InstanceID(providerPrefix + "/" + i.zone + "/" + i.id)
}

// group names an Auto Scaling group by what its ARN says. Unlike those of Azure, AWS's names differ if their case does.
// The unique part tells a group from another of the same name that was made after it was deleted.
type group struct {
	partition, region, account, unique, name string
}

func (g group) String() string { return "Auto Scaling group " + g.name }

// pool is the ARN of the group, as DescribeAutoScalingGroups gives it out.
func (g group) pool() cloud.PoolID {
	return cloud.PoolID(strings.Join([]string{"arn", g.partition, "autoscaling", g.region, g.account, "autoScalingGroup", g.unique,
		groupPrefix + g.name}, ":"))
}

// groupPrefix opens the last part of a group's ARN.
const groupPrefix = "autoScalingGroupName/"

// parseInstance reads Node.spec.providerID. What is not an EC2 instance is Unsupported, with the sentence that a person needs.
func parseInstance(id cloud.InstanceID) (instance, error) {
	text, isAWS := strings.CutPrefix(string(id), providerPrefix+"/")
	if !isAWS {
		return instance{}, unsupported(string(id), "this is not the provider ID of an EC2 instance (aws:///ZONE/i-...): name a node that runs on AWS")
	}
	// Fargate's end in /UUID/fargate-ADDRESS: there is no disk of it that anybody could have.
	if strings.Contains(text, "/fargate-") {
		return instance{}, unsupported(string(id), "this node is Fargate's, which has no disk to capture: name a node of an Auto Scaling group")
	}
	zone, name, _ := strings.Cut(text, "/")
	region := zoneRegion.FindStringSubmatch(zone)
	if region == nil || !instanceID.MatchString(name) {
		return instance{}, unsupported(string(id), "this names no zone and EC2 instance (aws:///ZONE/i-...): see spec.providerID of the node")
	}
	return instance{region: region[1], zone: zone, id: name}, nil
}

// parsePool reads a pool's ID. The name is last and holds no colon (Auto Scaling API, CreateAutoScalingGroup).
func parsePool(id cloud.PoolID) (group, error) {
	parts := strings.Split(string(id), ":")
	if len(parts) == 8 && parts[0] == "arn" && parts[2] == "autoscaling" && parts[5] == "autoScalingGroup" {
		name, named := strings.CutPrefix(parts[7], groupPrefix)
		g := group{partition: parts[1], region: parts[3], account: parts[4], unique: parts[6], name: name}
		if named && g.partition != "" && g.region != "" && g.account != "" && g.unique != "" && g.name != "" {
			return g, nil
		}
	}
	return group{}, unsupported(string(id), "this is not the ARN of an Auto Scaling group (arn:aws:autoscaling:REGION:ACCOUNT:autoScalingGroup:ID:autoScalingGroupName/NAME): "+
		"copy it from the output of aws autoscaling describe-auto-scaling-groups")
}

func unsupported(resource, message string) error {
	return &cloud.Error{Kind: cloud.Unsupported, Op: "read", Resource: resource, Message: message}
}
