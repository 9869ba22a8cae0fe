package capi

import (
	"context"
	"fmt"
	"math"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolName implements cloud.PoolProvider. Objects of two kinds may share a name; a pool ID names the kind.
func (r *PoolProvider) PoolName(id cloud.PoolID) string {
	of, err := parsePool(id)
	if err != nil {
		return string(id)
	}
	return of.name
}

// Family implements cloud.PoolProvider. Only the names of Cluster and pool together are unique in a place.
func (r *PoolProvider) Family(ctx context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	of, err := parsePool(id)
	if err != nil {
		return cloud.ImageFamily{}, err
	}
	at, err := r.readPlacement(ctx)
	return r.family(at, of), err
}

// family returns the image family of a pool. A MachinePool may replace a MachineDeployment of the same name, and has another family.
func (r *clusterAccess) family(at placement, of ref) cloud.ImageFamily {
	name := r.cluster.Name + "." + of.name
	if of.resource == machinePools {
		name += ".mp"
	}
	return cloud.ImageFamily{Place: at.place, Name: name}
}

const opLook = "read"

// poolView is a read of a pool.
type poolView struct {
	ref
	at            placement
	cluster, pool object
	// named is the pool's infrastructure reference, template is the object, and of is its infrastructure if known.
	named    reference
	template object
	of       infrastructure
	known    bool
	// path is the machines' spec in the template. rolls are the reasons why a write would change running machines.
	path  []string
	rolls []cloud.Refusal
	// group is the group of a MachinePool's machines; nil without a group.
	group *cloud.Pool
	// missing is true if the pool's template does not exist.
	missing bool
	// topology is the source of the pool; nil without a topology.
	topology *topology
	// image of the template, or of the topology, in the form of recipes; empty without an image.
	image string
}

// machine returns the machines' spec in the template.
func (v poolView) machine() spec { return specOf(v.template, v.path...) }

// view reads a pool: three objects, the ClusterClass if any, and the name of the image.
func (r *clusterAccess) view(ctx context.Context, id cloud.PoolID) (v poolView, err error) {
	if v.ref, err = parsePool(id); err != nil {
		return v, err
	}
	if v.namespace != r.cluster.Namespace {
		return v, &cloud.Error{Kind: cloud.NotFound, Op: opLook, Resource: v.ref.String(),
			Message: "the pool is in another namespace than the nodes' Cluster " + r.cluster.String()}
	}
	if v.at, err = r.readPlacement(ctx); err != nil {
		return v, err
	}
	if v.cluster, err = r.readCluster(ctx, opLook); err != nil {
		return v, err
	}
	if v.pool, err = r.kube.get(ctx, core(v.kind()), v.name); err != nil {
		return v, r.confirmMissing(ctx, opLook, err)
	}
	if of := v.pool.text("spec", "clusterName"); of != r.cluster.Name {
		return v, &cloud.Error{Kind: cloud.NotFound, Op: opLook, Resource: v.ref.String(),
			Message: fmt.Sprintf("the pool belongs to Cluster %s, not to %s", of, r.cluster.Name)}
	}
	if v.topology, err = r.topologyOf(ctx, v.cluster, v.pool); err != nil {
		return v, err
	}
	v.named = v.pool.reference(pathInfrastructure...)
	if v.of, v.known, v.path = v.infrastructure(); !v.known {
		return v, nil
	}
	v.template, err = r.kube.get(ctx, v.named.GroupKind, v.named.name)
	if err = r.confirmMissing(ctx, opLook, err); cloud.Is(err, cloud.NotFound) {
		v.missing = true
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if v.rolls, err = r.rollsOf(ctx, v); err != nil {
		return v, err
	}
	var inGroup []cloud.Refusal
	if v.group, inGroup, err = r.inGroups().groupOf(ctx, v); err != nil {
		return v, err
	}
	v.rolls = append(v.rolls, inGroup...)
	native := v.of.image(v.machine())
	if v.topology != nil {
		v.topology.findVariables(v.of, v.machine(), r.images.ImageID(cloud.FamilyVersion{Family: r.family(v.at, v.ref), Version: anyVersion}))
		native = v.topology.asked
	}
	if native != "" {
		v.image, err = r.images.ImageText(ctx, v.at.place, native)
	}
	return v, err
}

// refusals returns the reasons against any capture in the pool.
func (v poolView) refusals() []cloud.Refusal {
	found := append(v.refuseTopology(refusalsOf(v.cluster, v.pool)), v.rolls...)
	switch {
	case !v.known:
		return append(found, v.unknown())
	case v.missing:
		return append(found, cloud.Refuse(reasonTemplate, fmt.Sprintf("%s names %s, which does not exist", v.ref, v.named),
			"create the object again, or point the pool at an existing object"))
	case v.image == "":
		found = append(found, cloud.Refuse(cloud.TemplateUnsuitable,
			fmt.Sprintf("%s of %s names no image, so the provider would look up an image", v.named, v.ref),
			"name the image in the template"))
	}
	return append(found, v.of.refusals(v.machine(), v.named)...)
}

// Pool implements cloud.PoolProvider.
func (r *PoolProvider) Pool(ctx context.Context, id cloud.PoolID) (cloud.Pool, error) {
	v, err := r.view(ctx, id)
	if err != nil {
		return cloud.Pool{}, err
	}
	pool := cloud.Pool{
		ID: v.ref.pool(), Name: v.name, Location: v.at.location, Capacity: v.pool.replicas(), MaxSize: v.pool.maxSize(),
		Family: r.family(v.at, v.ref), Recipe: cloud.Recipe{Image: v.image, Bootstrap: v.bootstrap()},
		Refusals: append(v.refusals(), v.pending()...), Cautions: v.cautions(),
	}
	if v.known && !v.missing {
		pool.Traits = v.of.traits(v.machine())
		pool.InstanceType = v.machine().text(v.of.instanceType)
		pool.RootDisks = cloud.RootDisks(pool.InstanceType)
		pool.RootDiskGB = int32(min(v.machine().number(v.of.rootDisk...), math.MaxInt32)) //nolint:gosec // bounded
		pool.Location = v.location()
	}
	if v.group != nil {
		pool.Capacity, pool.MaxSize, pool.Cautions = v.group.Capacity, v.group.MaxSize, append(pool.Cautions, v.group.Cautions...)
	}
	return pool, nil
}

// bootstrap returns the bootstrap configuration of new machines.
func (v poolView) bootstrap() []string {
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		return []string{by.String()}
	}
	return nil
}

// cautionRemediation is the caution that running machines lose their remediation.
const cautionRemediation = "NoRemediation"

// cautions returns the consequences of the strategy OnDelete. Source: Cluster API, issue 13800.
func (v poolView) cautions() []cloud.Refusal {
	if v.resource != deployments || v.pool.strategy() != onDelete {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(cautionRemediation,
		fmt.Sprintf("a MachineHealthCheck replaces no machine of %s with an earlier template, "+
			"because Cluster API does not remediate such machines with OnDelete", v.ref),
		"after a promotion, monitor the running nodes by other means, or rebuild the nodes")}
}
