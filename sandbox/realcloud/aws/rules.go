package aws

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kamino-dev/kamino/sandbox/query"
	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// Limits of every run.
const (
	maxGroup = 4 // instances of the group
	maxSize  = 8 // GiB of a volume
	maxCalls = 6000
)

// Types of instances. The old one has no Nitro hypervisor.
const (
	smallType = "t3.nano"
	oldType   = "t2.nano"
)

// rule says what a call may do.
type rule struct {
	service string
	effect  realcloud.Effect
	// tagged is the resource type that a creating call must give the run's tags.
	tagged string
	// foreign are parameters that may name a resource without the tag.
	foreign []string
	// limit refuses what costs too much; nil for nothing.
	limit func(in *query.Value) error
}

// permission is the IAM action of a call.
func (r rule) permission(action string) string { return r.service + ":" + action }

// rules are all calls of the program, by action. The guard refuses all others.
var rules = map[string]rule{
	"DescribeAvailabilityZones":      {service: "ec2"},
	"DescribeImages":                 {service: "ec2"},
	"DescribeInstances":              {service: "ec2"},
	"DescribeLaunchTemplates":        {service: "ec2"},
	"DescribeReplaceRootVolumeTasks": {service: "ec2"},
	"DescribeSnapshots":              {service: "ec2"},
	"DescribeSubnets":                {service: "ec2"},
	"DescribeTags":                   {service: "ec2"},
	"DescribeVolumes":                {service: "ec2"},
	"DescribeVpcs":                   {service: "ec2"},
	"GetConsoleOutput":               {service: "ec2"},
	"GetInstanceUefiData":            {service: "ec2"},
	"DescribeAutoScalingGroups":      {service: "autoscaling"},
	"DescribeLifecycleHooks":         {service: "autoscaling"},
	"DescribeWarmPool":               {service: "autoscaling"},
	"SimulateCustomPolicy":           {service: "iam"},
	"GetCallerIdentity":              {service: "sts"},

	"CreateVpc":                   {service: "ec2", effect: realcloud.Creates, tagged: "vpc"},
	"CreateSubnet":                {service: "ec2", effect: realcloud.Creates, tagged: "subnet"},
	"CreateLaunchTemplate":        {service: "ec2", effect: realcloud.Creates, tagged: "launch-template", foreign: templateForeign, limit: templateLimit},
	"CreateLaunchTemplateVersion": {service: "ec2", effect: realcloud.Changes, foreign: templateForeign, limit: templateLimit},
	"RunInstances":                {service: "ec2", effect: realcloud.Creates, tagged: "instance", limit: launchLimit},
	"CreateVolume":                {service: "ec2", effect: realcloud.Creates, tagged: "volume", limit: volumeLimit},
	"CreateSnapshot":              {service: "ec2", effect: realcloud.Creates, tagged: "snapshot"},
	"RegisterImage":               {service: "ec2", effect: realcloud.Creates, tagged: "image"},
	"CreateReplaceRootVolumeTask": {service: "ec2", effect: realcloud.Creates, tagged: "replace-root-volume-task"},
	"CreateAutoScalingGroup":      {service: "autoscaling", effect: realcloud.Creates, tagged: "auto-scaling-group", limit: groupLimit},

	"DisableImage":         {service: "ec2", effect: realcloud.Changes},
	"CreateTags":           {service: "ec2", effect: realcloud.Changes, limit: tagLimit},
	"TerminateInstances":   {service: "ec2", effect: realcloud.Changes},
	"DeleteVolume":         {service: "ec2", effect: realcloud.Changes},
	"DeleteSnapshot":       {service: "ec2", effect: realcloud.Changes},
	"DeregisterImage":      {service: "ec2", effect: realcloud.Changes},
	"DeleteLaunchTemplate": {service: "ec2", effect: realcloud.Changes},
	"DeleteSubnet":         {service: "ec2", effect: realcloud.Changes},
	"DeleteVpc":            {service: "ec2", effect: realcloud.Changes},

	"UpdateAutoScalingGroup": {service: "autoscaling", effect: realcloud.Changes, limit: groupLimit},
	"DeleteAutoScalingGroup": {service: "autoscaling", effect: realcloud.Changes},
	"PutWarmPool":            {service: "autoscaling", effect: realcloud.Changes, limit: warmLimit},
	"DeleteWarmPool":         {service: "autoscaling", effect: realcloud.Changes},
	"EnterStandby":           {service: "autoscaling", effect: realcloud.Changes},
	"ExitStandby":            {service: "autoscaling", effect: realcloud.Changes},
	"SetInstanceProtection":  {service: "autoscaling", effect: realcloud.Changes},
	"PutLifecycleHook":       {service: "autoscaling", effect: realcloud.Changes},
	"DeleteLifecycleHook":    {service: "autoscaling", effect: realcloud.Changes},
}

// templateForeign names the public image.
var templateForeign = []string{"LaunchTemplateData.ImageId"}

// launchTypes are the types that the price covers.
var launchTypes = []string{smallType, oldType}

// templateLimit holds a template to a small type, to the run's tags on what is launched, and to nothing that gives the machine rights.
func templateLimit(in *query.Value) error {
	data := in.At("LaunchTemplateData")
	if kind := data.Get("InstanceType"); !slices.Contains(launchTypes, kind) {
		return fmt.Errorf("the instance type %q is not one of %v", kind, launchTypes)
	}
	for _, name := range []string{"IamInstanceProfile", "KeyName", "UserData"} {
		if data.Has(name) {
			return fmt.Errorf("the template has %s", name)
		}
	}
	if data.Has("BlockDeviceMapping") {
		return fmt.Errorf("the template has disks of its own")
	}
	return nil
}

// launchLimit allows one instance, from a template.
func launchLimit(in *query.Value) error {
	switch kind := in.Get("InstanceType"); {
	case in.Get("MaxCount") != "1":
		return fmt.Errorf("%s instances at once", in.Get("MaxCount"))
	case !in.Has("LaunchTemplate"):
		return fmt.Errorf("a launch without a template")
	case kind != "" && !slices.Contains(launchTypes, kind):
		return fmt.Errorf("the instance type %q is not one of %v", kind, launchTypes)
	}
	return nil
}

func volumeLimit(in *query.Value) error {
	text := in.Get("Size")
	if n, err := strconv.Atoi(text); text != "" && (err != nil || n > maxSize) {
		return fmt.Errorf("a volume of %s GiB", text)
	}
	return nil
}

func groupLimit(in *query.Value) error {
	text := in.Get("MaxSize")
	if n, err := strconv.Atoi(text); text != "" && (err != nil || n > maxGroup) {
		return fmt.Errorf("a group of up to %s instances", text)
	}
	return nil
}

// warmLimit holds group and warm pool together to the size of the group.
func warmLimit(in *query.Value) error {
	if n, err := strconv.Atoi(in.Get("MaxGroupPreparedCapacity")); err != nil || n > maxGroup {
		return fmt.Errorf("a warm pool without a small limit: %q", in.Get("MaxGroupPreparedCapacity"))
	}
	if in.Get("MinSize") != "0" {
		return fmt.Errorf("a warm pool of at least %s instances", in.Get("MinSize"))
	}
	return nil
}

// tagLimit allows the run's own tags alone.
func tagLimit(in *query.Value) error {
	for _, t := range in.List("Tag") {
		if key := t.Get("Key"); key != realcloud.TagRun && key != realcloud.TagEnd {
			return fmt.Errorf("the tag %q", key)
		}
	}
	return nil
}
