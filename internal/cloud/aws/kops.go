package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A group of kOps uses the newest version of its launch template, which kOps writes with the image of the instance group. If the image is
// a parameter (`image: ssm:/kamino/CLUSTER/GROUP`), `kops update cluster` resolves the parameter and changes nothing if the template
// already has its AMI. So Kamino writes both: first the template, then the parameter. An update of kOps between the two writes returns to
// the former image, and Kamino writes the template again. Sources: kubernetes/kops, pkg/apis/kops/validation/instancegroup.go;
// upup/pkg/fi/cloudup/awstasks/{autoscalinggroup,launchtemplate_target_api}.go; upup/pkg/fi/cloudup/awsup/aws_cloud.go.

// Tags of kOps' groups: the names of instance group and cluster. Source: kOps, upup/pkg/fi/cloudup/awsup (CloudTagInstanceGroupName,
// TagClusterName).
const kopsKey, kopsClusterKey = "kops.k8s.io/instancegroup", "KubernetesCluster"

// groupTag returns the value of a tag of the group; false without the tag.
func (r recipe) groupTag(key string) (string, bool) {
	for _, t := range r.group.Tags {
		if sdk.ToString(t.Key) == key {
			return sdk.ToString(t.Value), true
		}
	}
	return "", false
}

// instanceGroup returns kOps' name of the group; empty for a group without kOps.
func (r recipe) instanceGroup() string {
	name, found := r.groupTag(kopsKey)
	if !found {
		return ""
	}
	return cmp.Or(name, sdk.ToString(r.group.AutoScalingGroupName))
}

// parameterName is the name of the parameter with the image of a group of kOps; empty if the cluster is unknown.
func (r recipe) parameterName() string {
	cluster, _ := r.groupTag(kopsClusterKey)
	if ig := r.instanceGroup(); ig != "" && cluster != "" {
		return parameterPrefix + cluster + "/" + ig
	}
	return ""
}

// parameterARN is the ARN of the parameter with the image.
func (r recipe) parameterARN(ref group) string {
	return strings.Join([]string{"arn", ref.partition, "ssm", ref.region, ref.account, "parameter" + r.parameter.name}, ":")
}

// byParameter reports whether Kamino promotes the image of a group of kOps, by template and parameter.
func (r recipe) byParameter() bool {
	return r.parameter.usable() && r.spec != nil && sdk.ToString(r.spec.Version) == newestVersion
}

// templateOwner returns the tool that writes the group's launch template; empty if Kamino writes the template.
func (r recipe) templateOwner() string {
	if r.instanceGroup() == "" || r.byParameter() {
		return ""
	}
	return "kOps"
}

// buildsFrom reports whether the next instances have the image permanently. The group must pin the version, or kOps must own
// the group and find the image again at its next update.
func (r recipe) buildsFrom(image string) bool {
	return r.image == image && (r.pinned() || r.templateOwner() != "" || r.byParameter() && r.parameter.ami == sdk.ToString(r.data.ImageId))
}

// handOver returns the refusal to change a group of kOps, with instructions; nil for another group. kOps uses the newest
// template version, and running instances stay until a rolling update.
func (r recipe) handOver(ref group, ami string) *cloud.Refusal {
	ig := r.instanceGroup()
	if ig == "" || r.byParameter() {
		return nil
	}
	obstacle := fmt.Sprintf("%s: kOps writes the launch template", ref)
	first := ""
	switch name := r.parameterName(); {
	case r.parameter.obstacle != "":
		obstacle += fmt.Sprintf(", and Kamino cannot use parameter %s: %s", name, r.parameter.obstacle)
	case r.parameter.usable():
		obstacle += fmt.Sprintf(", and the group uses version %s of it instead of %s", sdk.ToString(r.spec.Version), newestVersion)
	case name != "":
		first = fmt.Sprintf("; if you set spec.image to ssm:%s instead, and create the parameter with `aws ssm put-parameter --name %s --type String "+
			"--value %s`, Kamino promotes from then on", name, name, ami)
	}
	refusal := cloud.Refuse(reasonKops, obstacle,
		fmt.Sprintf("set spec.image of instance group %s to %s with `kops edit instancegroup %s`, then run `kops update cluster --yes`%s", ig, ami, ig, first))
	return &refusal
}

// rolling says what kOps does with running nodes after a change of the image; empty for a group without kOps. Source: kubernetes/kops,
// upup/pkg/fi/cloudup/awsup/aws_cloud.go, buildCloudInstanceGroup.
func (r recipe) rolling() string {
	ig := r.instanceGroup()
	if ig == "" {
		return ""
	}
	return fmt.Sprintf("running nodes stay, until `kops rolling-update cluster --yes` replaces each node of instance group %s from an earlier version of the "+
		"launch template", ig)
}

// kopsCautions are the cautions about a group of kOps.
func (r recipe) kopsCautions(ref group) (found []cloud.Refusal) {
	if rolling := r.rolling(); rolling != "" {
		found = append(found, cloud.Refuse(cautionRolling, fmt.Sprintf("%s: after a promotion %s", ref, rolling),
			"no action is needed if that may happen; otherwise name other instance groups with --instance-group"))
	}
	if r.byParameter() && r.data != nil && r.parameter.ami != sdk.ToString(r.data.ImageId) {
		found = append(found, cloud.Refuse(cautionUpdate, fmt.Sprintf("%s: parameter %s names %s, but the launch template has %s, so the next "+
			"`kops update cluster --yes` changes the image", ref, r.parameter.name, r.parameter.ami, sdk.ToString(r.data.ImageId)),
			"run `kops update cluster --yes` now, or promote a version"))
	}
	return found
}

// setByParameter points a group of kOps to an image: a version of the template, which the group uses at once, and then the parameter. If the
// parameter cannot be written, the template returns to the parameter's image. setByParameter returns false if another client changed
// the template meanwhile, and the caller reads the group again.
func (p *PoolProvider) setByParameter(ctx context.Context, op string, ref group, r recipe, image string) (bool, error) {
	im, err := p.availableImage(ctx, op, ref, ref.region, image)
	if err != nil {
		return false, err
	}
	if refusal := refusalOfRoot(ref, r, im); refusal != nil {
		return false, refusal.Error(op, ref.String())
	}
	ami, was := sdk.ToString(im.ImageId), sdk.ToString(r.data.ImageId)
	if r.parameter.ami != ami && r.parameter.ami != was && was != ami {
		return false, &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(), Message: fmt.Sprintf(
			"parameter %s names %s, but the launch template has %s: "+
				"run `kops update cluster --yes`, and try again", r.parameter.name, r.parameter.ami, was)}
	}
	newest := r.number
	if was != ami {
		before := r.parameter.ami
		if r, newest, err = p.newestWithImage(ctx, op, ref, r, im, image); err != nil {
			return false, err
		}
		if before != r.parameter.ami {
			_, undo := p.templateWithImage(ctx, op, ref, r, ec2types.Image{ImageId: sdk.String(r.parameter.ami)}, r.parameter.ami)
			return false, errors.Join(&cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(), Message: fmt.Sprintf(
				"another client changed parameter %s from %s to %s", r.parameter.name, before, r.parameter.ami)}, undo)
		}
	}
	if r.parameter.ami != ami {
		if err := writeParameter(ctx, p.account, ref.region, r.parameter.name, ami); err != nil {
			_, undo := p.templateWithImage(ctx, op, ref, r, ec2types.Image{ImageId: sdk.String(r.parameter.ami)}, r.parameter.ami)
			return false, errors.Join(err, undo)
		}
	}
	now, err := p.version(ctx, ref, *r.spec)
	if err != nil || now == nil {
		return false, err
	}
	// AWS may show the new version late.
	return sdk.ToInt64(now.VersionNumber) <= newest || sdk.ToString(now.LaunchTemplateData.ImageId) == ami, nil
}

// newestWithImage makes a version of the template from the newest one, and returns its source and its number. If another client made a
// version since the read, the new version is made again from that one: it may have other user data.
func (p *PoolProvider) newestWithImage(ctx context.Context, op string, ref group, r recipe, im ec2types.Image, image string) (recipe, int64, error) {
	newest := r.number
	for range maxRecipeWrites {
		number, err := p.templateWithImage(ctx, op, ref, r, im, image)
		if err != nil || number <= newest+1 {
			return r, number, err
		}
		if r.parameter, err = readParameter(ctx, p.account, ref.region, r.parameter.name); err != nil {
			return r, 0, err
		}
		newest, r.number = number, number-1 // AWS may not show it yet, but knows it as a source
	}
	return r, 0, &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: ref.String(),
		Message: "other clients change the launch template at the same time: try again"}
}
