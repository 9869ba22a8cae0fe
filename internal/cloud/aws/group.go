package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Line implements cloud.PoolProvider: the pool's name in its region, for names of groups are unique there.
func (p *PoolProvider) Line(_ context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	ref, err := parsePool(id)
	return cloud.ImageFamily{Place: ref.region, Name: ref.name}, err
}

// PoolName implements cloud.PoolProvider; the whole text where it is no pool's ID.
func (p *PoolProvider) PoolName(id cloud.PoolID) string {
	ref, err := parsePool(id)
	if err != nil {
		return string(id)
	}
	return ref.name
}

// Pool implements cloud.PoolProvider: one request for the group, and one for its launch template.
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
		ID: id, Name: ref.name, Location: ref.region, Capacity: capacityOf(r.group), MaxSize: int64(sdk.ToInt32(r.group.MaxSize)) + aside(r.group),
		Line: cloud.ImageFamily{Place: ref.region, Name: ref.name}, Recipe: cloud.Recipe{Image: r.image}, Owner: r.handedTo(), Refusals: refusalsOfGroup(ref, r),
	}
	out.Cautions = r.cautions(ref, versionOf(out.Line, r.image) != "")
	for _, part := range r.parts() {
		out.Recipe.Bootstrap = append(out.Recipe.Bootstrap, part.String())
	}
	return out, nil
}

// groupKey names a group among what was read within one look.
func groupKey(id cloud.PoolID) string { return "group " + string(id) }

// group reads a group, unless a list has shown it within the same look. One of the name that was made after the pool's was deleted is
// another one.
func (a *account) group(ctx context.Context, ref group) (types.AutoScalingGroup, error) {
	if listed, found := cloud.ReadCacheOf(ctx).Get(groupKey(ref.pool())); found {
		return listed.(types.AutoScalingGroup), nil
	}
	out, err := a.groups(ref.region).DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{ref.name}})
	if err != nil {
		return types.AutoScalingGroup{}, fail("look at", ref, err)
	}
	missing := "there is no such group in " + ref.region
	for _, g := range out.AutoScalingGroups {
		if sdk.ToString(g.AutoScalingGroupARN) == string(ref.pool()) {
			return g, nil
		}
		missing = "the group that has this name now is another one: " + sdk.ToString(g.AutoScalingGroupARN)
	}
	return types.AutoScalingGroup{}, &cloud.Error{Kind: cloud.NotFound, Op: "look at", Resource: ref.String(), Message: missing}
}

// capacityOf is the number of nodes that a group is meant to have. What is in standby is not part of the desired capacity, and is a
// node that comes back.
func capacityOf(g types.AutoScalingGroup) int64 {
	return int64(sdk.ToInt32(g.DesiredCapacity)) + aside(g)
}

// aside is how many instances are in standby or on their way there.
func aside(g types.AutoScalingGroup) int64 {
	n := int64(0)
	for _, m := range g.Instances {
		if inStandby(string(m.LifecycleState)) {
			n++
		}
	}
	return n
}

// inStandby tells whether the group neither counts nor replaces an instance.
func inStandby(lifecycle string) bool {
	return lifecycle == string(types.LifecycleStateStandby) || lifecycle == string(types.LifecycleStateEnteringStandby)
}

// SetCapacity implements cloud.PoolProvider. The size is written as it shall be, so that two who ask at once get one node.
func (p *PoolProvider) SetCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error {
	ref, err := parsePool(id)
	if err != nil {
		return err
	}
	ctx = cloud.WithoutReadCache(ctx)
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return err
	}
	switch now := capacityOf(r.group); {
	case now != from:
		return &cloud.Error{Kind: cloud.Conflict, Op: "grow", Resource: ref.String(), Message: fmt.Sprintf("it has %d nodes, not %d: somebody else changed its size", now, from)}
	case to <= from:
		return &cloud.Error{Kind: cloud.Invalid, Op: "grow", Resource: ref.String(), Message: fmt.Sprintf("%d nodes are not more than the %d that it has: a pool is only ever grown", to, from)}
	}
	if err := p.mayWrite(ctx, "grow", ref, r); err != nil {
		return err
	}
	desired := to - aside(r.group)
	if most := int64(sdk.ToInt32(r.group.MaxSize)); desired > most {
		return atMaximum(ref, most).Error("grow", ref.String())
	}
	_, err = p.groups(ref.region).SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String(ref.name), DesiredCapacity: sdk.Int32(int32(desired))}) //nolint:gosec // at most MaxSize, which is one
	return fail("grow", ref, err)
}

func atMaximum(ref group, most int64) cloud.Refusal {
	return cloud.Refuse(cloud.PoolAtMaximum, fmt.Sprintf("%s is to grow by one, and may have %d instances in service at most, which it has", ref, most), "raise its maximum size")
}

// Reasons of refusals of groups.
const (
	reasonEKS           = "EKSManaged"
	reasonOperator      = "OperatorManaged"
	reasonKops          = "KopsManaged"
	reasonCAPA          = "CAPAManaged"
	reasonConfiguration = "LaunchConfiguration"
	reasonNoTemplate    = "TemplateMissing"
	reasonOverride      = "OverrideNamesImage"
	reasonSnapshot      = "SnapshotInTemplate"
	reasonParameter     = "ImageFromParameter"
	reasonRefresh       = "InstanceRefreshRunning"
	reasonWarmPool      = "WarmPool"
	reasonMinimum       = "AtMinimum"
	reasonDeleted       = "GroupBeingDeleted"
	reasonUserData      = "UserDataStays"
)

// owner is who else writes a group's template, told by a tag of the group.
type owner struct {
	reason, key string
	// begins: the key is only how it begins.
	begins           bool
	obstacle, remedy string
}

// owners of groups. Sources: EKS User Guide, "Managed node groups" (the tag); Cluster API's provider for AWS, api/v1beta2/tags.go.
var owners = []owner{
	{reasonEKS, "eks:nodegroup-name", false, "EKS owns its launch template, and replaces its nodes at each change", "use a self-managed node group"},
	{reasonCAPA, "sigs.k8s.io/cluster-api-provider-aws/cluster/", true, "Cluster API writes its launch template", "leave this pool to Cluster API, or name its management cluster with --management-kubeconfig"},
}

// kopsKey is the tag by which kOps knows the group of an instance group, whose name is its value. Source: kOps, upup/pkg/fi/cloudup
// (CloudTagInstanceGroupName).
const kopsKey = "kops.k8s.io/instancegroup"

// instanceGroup is kOps' name of the group; empty where the group is none of kOps'.
func (r recipe) instanceGroup() string {
	for _, t := range r.group.Tags {
		if sdk.ToString(t.Key) == kopsKey {
			return cmp.Or(sdk.ToString(t.Value), sdk.ToString(r.group.AutoScalingGroupName))
		}
	}
	return ""
}

// handedTo is who writes the group's template, and is told of its versions; empty where that is Kamino.
func (r recipe) handedTo() string {
	if r.instanceGroup() == "" {
		return ""
	}
	return "kOps"
}

// builds tells whether the group's next instances are built from the image, and will be: by its own pin, or because kOps wants it.
func (r recipe) builds(image string) bool {
	return r.image == image && (r.pinned() || r.handedTo() != "")
}

// handOver refuses to point a group at an image that kOps points at it, and says what to do; nil where Kamino does that. kOps points the
// group at what is newest, so that instances which run stay until they are rolled.
func (r recipe) handOver(ref group, ami string) *cloud.Refusal {
	ig := r.instanceGroup()
	if ig == "" {
		return nil
	}
	refusal := cloud.Refuse(reasonKops, fmt.Sprintf("%s: kOps writes its launch template", ref),
		fmt.Sprintf("set spec.image of instance group %s to %s with `kops edit instancegroup %s`, then run `kops update cluster --yes`", ig, ami, ig))
	return &refusal
}

// refusalsOfGroup says why no node of the group can be captured, as far as the group and its template show it.
func refusalsOfGroup(ref group, r recipe) []cloud.Refusal {
	var found []cloud.Refusal
	refuse := func(reason, obstacle, remedy string) {
		found = append(found, cloud.Refuse(reason, fmt.Sprintf("%s: %s", ref, obstacle), remedy))
	}
	for _, o := range owners {
		if r.capa && o.reason == reasonCAPA {
			continue
		}
		if slices.ContainsFunc(r.group.Tags, func(t types.TagDescription) bool {
			key := sdk.ToString(t.Key)
			return key == o.key || o.begins && strings.HasPrefix(key, o.key)
		}) {
			refuse(o.reason, o.obstacle, o.remedy)
		}
	}
	if by := operatorOf(r); by != "" && len(found) == 0 {
		refuse(reasonOperator, by+" manages it, and AWS lets nobody else change it", "use a group of your own")
	}
	if r.group.Status != nil {
		refuse(reasonDeleted, "it is being deleted ("+*r.group.Status+")", "leave it out")
	}
	if r.group.WarmPoolConfiguration != nil {
		refuse(reasonWarmPool, "it has a warm pool, whose instances were built from the image before and are its next nodes", "remove the warm pool")
	}
	return append(found, refusalsOfTemplate(ref, r)...)
}

// operatorOf is the service that alone may change the group or its launch template; empty if there is none.
func operatorOf(r recipe) string {
	if o := r.group.Operator; o != nil {
		return sdk.ToString(o.Principal)
	}
	return r.operator
}

// mayWrite refuses a write of a group whose template is not its owner's to change, or that is being refreshed: a refresh brings every
// instance up to what the group says when it comes to it.
func (p *PoolProvider) mayWrite(ctx context.Context, op string, ref group, r recipe) error {
	for _, refusal := range refusalsOfGroup(ref, r) {
		if refusal.Reason != reasonNoTemplate { // that one a write mends
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

// refreshing is the refusal of a group that an instance refresh is at work on; nil if there is none.
func (a *account) refreshing(ctx context.Context, ref group) (*cloud.Refusal, error) {
	out, err := a.groups(ref.region).DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: sdk.String(ref.name), MaxRecords: sdk.Int32(1)}) // the newest
	if err != nil {
		return nil, fail("look at the instance refreshes of", ref, err)
	}
	for _, r := range out.InstanceRefreshes {
		switch r.Status {
		case types.InstanceRefreshStatusPending, types.InstanceRefreshStatusInProgress, types.InstanceRefreshStatusCancelling,
			types.InstanceRefreshStatusRollbackInProgress, types.InstanceRefreshStatusBaking:
			refusal := cloud.Refuse(reasonRefresh, fmt.Sprintf("%s: the instance refresh %s is %s, which replaces its nodes", ref, sdk.ToString(r.InstanceRefreshId), r.Status), "wait for its end, or cancel it")
			return &refusal, nil
		default:
		}
	}
	return nil, nil
}

// maySet refuses to point a group at an image for the same reasons, and where its template is kOps' to write.
func (p *PoolProvider) maySet(ctx context.Context, op string, ref group, r recipe, image string) error {
	if handOver := r.handOver(ref, image); handOver != nil {
		return handOver.Error(op, ref.String())
	}
	return p.mayWrite(ctx, op, ref, r)
}

// PreflightRecipe implements cloud.PoolProvider.
func (p *PoolProvider) PreflightRecipe(ctx context.Context, spec cloud.PreflightSpec) ([]cloud.Refusal, error) {
	ref, err := parsePool(spec.Pool)
	if err != nil {
		return nil, err
	}
	r, err := p.recipe(ctx, ref)
	if err != nil {
		return nil, err
	}
	found := refusalsOfGroup(ref, r)
	running, err := p.refreshing(ctx, ref)
	if err != nil {
		return nil, err
	}
	if running != nil {
		found = append(found, *running)
	}
	desired, least, most := int64(sdk.ToInt32(r.group.DesiredCapacity)), int64(sdk.ToInt32(r.group.MinSize)), int64(sdk.ToInt32(r.group.MaxSize))
	switch {
	case spec.Grows && desired+1 > most:
		found = append(found, atMaximum(ref, most))
	case !spec.Grows && desired-1 < least:
		found = append(found, cloud.Refuse(reasonMinimum, fmt.Sprintf("%s is at its minimum of %d instances, and the donor must leave its service for a while", ref, least), "lower its minimum size, or grow it by one"))
	}
	if spec.RemovesBootstrap && len(r.parts()) > 0 {
		found = append(found, cloud.Refuse(reasonUserData, fmt.Sprintf("%s: its launch template has user data, which stays, and would run on nodes whose disk carries already what it did", ref),
			"capture with the profile bootstrap or eks, or join nodes without user data"))
	}
	denied, err := p.deniedOfGroup(ctx, ref, r, spec)
	return append(found, denied...), err
}
