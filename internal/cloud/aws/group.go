package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Family implements cloud.PoolProvider. Names of groups are unique in a region.
func (p *PoolProvider) Family(_ context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	ref, err := parsePool(id)
	return cloud.ImageFamily{Place: ref.region, Name: ref.name}, err
}

// PoolName implements cloud.PoolProvider. PoolName returns the whole text if the text is not the ID of a pool.
func (p *PoolProvider) PoolName(id cloud.PoolID) string {
	ref, err := parsePool(id)
	if err != nil {
		return string(id)
	}
	return ref.name
}

// Pool implements cloud.PoolProvider with two requests: group and launch template.
func (p *PoolProvider) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	ref, err := parsePool(id)
	if err != nil {
		return cloud.Pool{}, err
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return cloud.Pool{}, err
	}
	out := cloud.Pool{
		ID: id, Name: ref.name, Location: ref.region, Capacity: capacityOf(r.group), MaxSize: int64(sdk.ToInt32(r.group.MaxSize)) + standbyCount(r.group),
		Family: cloud.ImageFamily{Place: ref.region, Name: ref.name}, Recipe: cloud.Recipe{Image: r.image}, Owner: r.templateOwner(),
		Refusals: refusalsOfGroup(ref, r), InstanceType: string(besideType(r)), RootDisks: rootDisks(r),
	}
	if out.Warm, err = p.warmPool(ctx, ref, r.group); err != nil {
		return cloud.Pool{}, err
	}
	out.Cautions = r.cautions(ref, versionOf(out.Family, r.image) != "")
	if out.Warm != nil {
		out.Cautions = append(out.Cautions, warmCaution(ref, *out.Warm))
	}
	for _, part := range r.parts() {
		out.Recipe.Bootstrap = append(out.Recipe.Bootstrap, part.String())
	}
	return out, nil
}

// groupKey is the key of a group in the read cache.
func groupKey(id cloud.PoolID) string { return "group " + string(id) }

// group reads a group from the read cache or from AWS. A new group with the name of a deleted group is a different group.
func (a *account) group(ctx context.Context, ref group) (types.AutoScalingGroup, error) {
	if !isLarge(a, ref.region) { // other reads of a pass need the list, too
		if err := listGroups(ctx, a, ref.region); err != nil {
			return types.AutoScalingGroup{}, err
		}
	}
	if listed, found := cloud.ReadCacheOf(ctx).Get(groupKey(ref.pool())); found {
		return listed.(types.AutoScalingGroup), nil
	}
	out, err := a.autoScaling(ref.region).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{ref.name}})
	if err != nil {
		return types.AutoScalingGroup{}, fail("read", ref, err)
	}
	missing := "there is no such group in " + ref.region
	for _, g := range out.AutoScalingGroups {
		if sdk.ToString(g.AutoScalingGroupARN) == string(ref.pool()) {
			rememberTags(a, g)
			return g, nil
		}
		missing = "another group has this name now: " + sdk.ToString(g.AutoScalingGroupARN)
	}
	return types.AutoScalingGroup{}, &cloud.Error{Kind: cloud.NotFound, Op: "read", Resource: ref.String(), Message: missing}
}

// capacityOf returns the wanted number of nodes. Instances in standby are nodes, but not part of the desired capacity.
func capacityOf(g types.AutoScalingGroup) int64 {
	return int64(sdk.ToInt32(g.DesiredCapacity)) + standbyCount(g)
}

// standbyCount returns the number of instances in standby or entering standby.
func standbyCount(g types.AutoScalingGroup) int64 {
	n := int64(0)
	for _, m := range g.Instances {
		if inStandby(string(m.LifecycleState)) {
			n++
		}
	}
	return n
}

// inStandby reports whether the group ignores an instance for capacity and replacement.
func inStandby(lifecycle string) bool {
	return lifecycle == string(types.LifecycleStateStandby) || lifecycle == string(types.LifecycleStateEnteringStandby)
}

// Reasons of refusals of groups.
const (
	reasonKops       = "KopsManaged"
	reasonNoTemplate = "TemplateMissing"
	reasonMinimum    = "AtMinimum"
)

// owner is another tool that writes a group's launch template. A tag of the group shows the tool.
type owner struct {
	key string
	// begins is true if key is a prefix of the tag's key.
	begins           bool
	obstacle, remedy string
}

// owners of groups. Sources: EKS User Guide, "Managed node groups" (the tag); Cluster API's provider for AWS,
// api/v1beta2/tags.go.
var owners = []owner{
	{"eks:nodegroup-name", false, "EKS owns the launch template, and replaces nodes at every change", "use a self-managed node group"},
	{capaKey, true, "Cluster API writes the launch template",
		"leave the pool to Cluster API, or name the management cluster with --management-kubeconfig"},
}

// capaKey begins the tag of a group of Cluster API's provider for AWS.
const capaKey = "sigs.k8s.io/cluster-api-provider-aws/cluster/"

// refusalsOfGroup returns the reasons against any capture in the group, as visible in group and launch template.
func refusalsOfGroup(ref group, r recipe) []cloud.Refusal {
	var found []cloud.Refusal
	refuse := func(reason, obstacle, remedy string) {
		found = append(found, cloud.Refuse(reason, fmt.Sprintf("%s: %s", ref, obstacle), remedy))
	}
	for _, o := range owners {
		if r.capa && o.key == capaKey {
			continue
		}
		if slices.ContainsFunc(r.group.Tags, func(t types.TagDescription) bool {
			key := sdk.ToString(t.Key)
			return key == o.key || o.begins && strings.HasPrefix(key, o.key)
		}) {
			refuse(cloud.ManagedElsewhere, o.obstacle, o.remedy)
		}
	}
	if by := operatorOf(r); by != "" && len(found) == 0 {
		refuse(cloud.ManagedElsewhere, by+" manages the group, and AWS allows no other changes", "use a group of your own")
	}
	if r.group.Status != nil {
		refuse(cloud.PoolBeingDeleted, "the group is being deleted ("+*r.group.Status+")", "leave the pool out")
	}
	if unit := unitOf(r.group); unit != "" {
		refuse(cloud.PoolUnsupported, "the group counts its capacity in "+unit+", but Kamino counts instances",
			"remove the weights, and set the desired capacity type to units")
	}
	return append(found, refusalsOfTemplate(ref, r)...)
}

// unitOf returns the unit of a group's capacity; empty if the group counts instances.
func unitOf(g types.AutoScalingGroup) string {
	if kind := sdk.ToString(g.DesiredCapacityType); kind != "" && kind != "units" {
		return kind
	}
	if m := g.MixedInstancesPolicy; m != nil && m.LaunchTemplate != nil {
		for _, o := range m.LaunchTemplate.Overrides {
			if weight := sdk.ToString(o.WeightedCapacity); weight != "" && weight != "1" {
				return "weights of instance types"
			}
		}
	}
	return ""
}

// operatorOf returns the AWS service with the exclusive right to change the group or the launch template; empty without a
// service.
func operatorOf(r recipe) string {
	if o := r.group.Operator; o != nil {
		return sdk.ToString(o.Principal)
	}
	return r.operator
}

// refuseWrite returns a refusal if another tool owns the launch template, or during an instance refresh. A refresh applies
// the group's current recipe to all instances.
func (p *PoolProvider) refuseWrite(ctx context.Context, op string, ref group, r recipe) error {
	for _, refusal := range refusalsOfGroup(ref, r) {
		if refusal.Reason != reasonNoTemplate { // the write repairs a missing template
			return refusal.Error(op, ref.String())
		}
	}
	running, err := p.refreshing(ctx, ref)
	if err != nil {
		return err
	}
	if running != nil {
		return running.Error(op, ref.String())
	}
	return nil
}

// refreshing returns the refusal for an active instance refresh of the group; nil without a refresh.
func (a *account) refreshing(ctx context.Context, ref group) (*cloud.Refusal, error) {
	newest := &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: sdk.String(ref.name), MaxRecords: sdk.Int32(1)}
	out, err := a.autoScaling(ref.region).DescribeInstanceRefreshes(ctx, newest)
	if err != nil {
		return nil, fail("read the instance refreshes of", ref, err)
	}
	for _, r := range out.InstanceRefreshes {
		switch r.Status {
		case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress, types.InstanceRefreshStatusCancelling,
			types.InstanceRefreshStatusRollbackInProgress, types.InstanceRefreshStatusBaking:
			refusal := cloud.Refuse(cloud.NodesWouldBeReplaced, fmt.Sprintf("%s: instance refresh %s is %s, and replaces nodes",
				ref, sdk.ToString(r.InstanceRefreshId), r.Status),
				"wait until the refresh ends, or cancel the refresh with `aws autoscaling cancel-instance-refresh`")
			return &refusal, nil
		default:
		}
	}
	return nil, nil
}

// refuseChange refuses a change of the image for the reasons of refuseWrite, of kOps, and of groups that share the template.
func (p *PoolProvider) refuseChange(ctx context.Context, op string, ref group, r recipe, image string) error {
	if handOver := r.handOver(ref, image); handOver != nil {
		return handOver.Error(op, ref.String())
	}
	if err := p.refuseWrite(ctx, op, ref, r); err != nil {
		return err
	}
	shared, err := templateShared(ctx, p.account, ref, r)
	if err == nil && shared != nil {
		err = shared.Error(op, ref.String())
	}
	return err
}

// refusalsOfWrite returns the refusals of a write to the launch template that neither group nor template show.
func refusalsOfWrite(ctx context.Context, p *PoolProvider, ref group, r recipe) ([]cloud.Refusal, error) {
	running, err := p.refreshing(ctx, ref)
	if err != nil {
		return nil, err
	}
	shared, err := templateShared(ctx, p.account, ref, r)
	var found []cloud.Refusal
	for _, refusal := range []*cloud.Refusal{running, shared} {
		if refusal != nil {
			found = append(found, *refusal)
		}
	}
	return found, err
}

// PreflightRecipe implements cloud.PoolProvider.
func (p *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	ref, err := parsePool(spec.Pool)
	if err != nil {
		return nil, err
	}
	if !p.capa { // templateShared reads all groups, so the group needs no request of its own
		if err := listGroups(ctx, p.account, ref.region); err != nil {
			return nil, err
		}
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return nil, err
	}
	found, err := refusalsOfWrite(ctx, p, ref, r)
	if err != nil {
		return nil, err
	}
	found = append(refusalsOfGroup(ref, r), found...)
	ofDisks, err := refusalsOfDisks(ctx, p.account, ref, r, spec.Instance)
	if err != nil {
		return nil, err
	}
	found = append(found, ofDisks...)
	if least := sdk.ToInt32(r.group.MinSize); !spec.Copies && sdk.ToInt32(r.group.DesiredCapacity) <= least {
		found = append(found, cloud.Refuse(reasonMinimum,
			fmt.Sprintf("%s is at the minimum size of %d instances, but the donor must leave service during the capture", ref, least),
			"lower the minimum size, or grow the group by one"))
	}
	if spec.RemovesBootstrap && len(r.parts()) > 0 {
		found = append(found, cloud.Refuse(cloud.TemplateUnsuitable,
			fmt.Sprintf("%s: the launch template has user data, which stays and would run again on nodes from the image", ref),
			"capture with the profile bootstrap or eks, or join nodes without user data"))
	}
	denied, err := deniedOfGroup(ctx, p, ref, r, spec)
	return append(found, denied...), err
}
