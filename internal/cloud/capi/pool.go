package capi

import (
	"context"
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PoolName implements cloud.PoolProvider. Objects of two kinds may have one name; whoever means the set says so.
func (r *PoolProvider) PoolName(id cloud.PoolID) string {
	of, err := parsePool(id)
	if err != nil {
		return string(id)
	}
	return of.name
}

// Line implements cloud.PoolProvider. Neither a MachineDeployment's name nor a Cluster's alone tells it from others in its place.
func (r *PoolProvider) Line(ctx context.Context, id cloud.PoolID) (cloud.ImageFamily, error) {
	of, err := parsePool(id)
	if err != nil {
		return cloud.ImageFamily{}, err
	}
	at, err := r.where(ctx)
	return r.line(at, of), err
}

// line of a pool. A MachinePool's is another than that of a MachineDeployment of its name, which it may have taken the place of.
func (r *world) line(at home, of ref) cloud.ImageFamily {
	name := r.cluster.Name + "." + of.name
	if of.resource == machinePools {
		name += ".mp"
	}
	return cloud.ImageFamily{Place: at.place, Name: name}
}

const opLook = "look at"

// view is one look at a pool.
type view struct {
	ref
	at            home
	cluster, pool object
	// template that the pool names, as it is named and as it is; of is its infrastructure, if it is a known one.
	named    reference
	template object
	of       infrastructure
	known    bool
	// path of the template's part that machines are made of, and rolls tell why a write of it would change machines that run.
	path  []string
	rolls []cloud.Refusal
	// group that the machines of a MachinePool are in; nil if they are in none.
	group *cloud.Pool
	// missing tells that the pool names a template that does not exist.
	missing bool
	// topology that the pool is made from; nil if it is made from none.
	topology *topology
	// image that the template names, or the topology asks for, as a recipe writes it; empty if none.
	image string
}

// machine is the template's part that machines are made of.
func (v view) machine() spec { return specOf(v.template, v.path...) }

// view looks at a pool: three objects, the ClusterClass of one that is made from it, and the image by its name.
func (r *world) view(ctx context.Context, id cloud.PoolID) (v view, err error) {
	if v.ref, err = parsePool(id); err != nil {
		return v, err
	}
	if v.namespace != r.cluster.Namespace {
		return v, &cloud.Error{Kind: cloud.NotFound, Op: opLook, Resource: v.ref.String(),
			Message: "it is in another namespace than the Cluster of these nodes, " + r.cluster.String()}
	}
	if v.at, err = r.where(ctx); err != nil {
		return v, err
	}
	if v.cluster, err = r.theCluster(ctx, opLook); err != nil {
		return v, err
	}
	if v.pool, err = r.kube.get(ctx, core(v.kind()), v.name); err != nil {
		return v, r.believed(ctx, opLook, err)
	}
	if of := v.pool.text("spec", "clusterName"); of != r.cluster.Name {
		return v, &cloud.Error{Kind: cloud.NotFound, Op: opLook, Resource: v.ref.String(), Message: fmt.Sprintf("it is of Cluster %s, and not of %s", of, r.cluster.Name)}
	}
	if v.topology, err = r.topologyOf(ctx, v.cluster, v.pool); err != nil {
		return v, err
	}
	v.named = v.pool.reference(pathInfrastructure...)
	if v.of, v.known, v.path = v.infrastructure(); !v.known {
		return v, nil
	}
	v.template, err = r.kube.get(ctx, v.named.GroupKind, v.named.name)
	if err = r.believed(ctx, opLook, err); cloud.Is(err, cloud.NotFound) {
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
	if v.group, inGroup, err = r.inGroups().of(ctx, v); err != nil {
		return v, err
	}
	v.rolls = append(v.rolls, inGroup...)
	native := v.of.image(v.machine())
	if v.topology != nil {
		v.topology.read(v.of, v.machine(), r.images.ImageID(cloud.FamilyVersion{Line: r.line(v.at, v.ref), Version: anyVersion}))
		native = v.topology.asked
	}
	if native != "" {
		v.image, err = r.images.ImageText(ctx, v.at.place, native)
	}
	return v, err
}

// refusals tell why no Machine of the pool can be captured.
func (v view) refusals() []cloud.Refusal {
	found := append(v.refuseTopology(refusalsOf(v.cluster, v.pool)), v.rolls...)
	switch {
	case !v.known:
		return append(found, v.unknown())
	case v.missing:
		return append(found, cloud.Refuse(reasonTemplate, fmt.Sprintf("%s names %s, which does not exist", v.ref, v.named),
			"make it again, or point the pool at one that exists"))
	case v.image == "":
		found = append(found, cloud.Refuse(reasonImage, fmt.Sprintf("%s of %s names no image, but has its provider look for one", v.named, v.ref), "name the image in it"))
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
		Line: r.line(v.at, v.ref), Recipe: cloud.Recipe{Image: v.image, Bootstrap: v.bootstrap()}, Refusals: append(v.refusals(), v.pending()...), Cautions: v.cautions(),
	}
	if v.known && !v.missing {
		pool.Traits = v.of.traits(v.machine())
		pool.Location = v.location()
	}
	if v.group != nil {
		pool.Capacity, pool.MaxSize, pool.Cautions = v.group.Capacity, v.group.MaxSize, append(pool.Cautions, v.group.Cautions...)
	}
	return pool, nil
}

// bootstrap is what a new machine is given to join by.
func (v view) bootstrap() []string {
	if by := v.pool.reference(pathBootstrap...); by.name != "" {
		return []string{by.String()}
	}
	return nil
}

// cautionRemediation is the caution that running machines lose their remediation.
const cautionRemediation = "NoRemediation"

// cautions tell what follows from OnDelete. Source: Cluster API, issue 13800.
func (v view) cautions() []cloud.Refusal {
	if v.resource != deployments || v.pool.strategy() != onDelete {
		return nil
	}
	return []cloud.Refusal{cloud.Refuse(cautionRemediation,
		fmt.Sprintf("a MachineHealthCheck replaces no machine of %s that is of an earlier template, for Cluster API makes none for those under OnDelete", v.ref),
		"after a promotion, watch the nodes that run by other means, or rebuild them")}
}

// SetCapacity implements cloud.PoolProvider, by a write that is conditional on the pool as it was read.
func (r *PoolProvider) SetCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error {
	return again(func() error { return r.setCapacity(cloud.WithoutReadCache(ctx), id, from, to) })
}

func (r *PoolProvider) setCapacity(ctx context.Context, id cloud.PoolID, from, to int64) error {
	const op = "grow"
	if err := r.atHome(ctx, op); err != nil {
		return err
	}
	v, err := r.view(ctx, id)
	if err != nil {
		return err
	}
	if v.group != nil {
		if err := v.mayGrow(op); err != nil {
			return err
		}
		return r.groups.SetCapacity(ctx, v.group.ID, from, to)
	}
	switch now := v.pool.replicas(); {
	case now != from:
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: v.ref.String(),
			Message: fmt.Sprintf("it has %d nodes, not %d: somebody else changed its size", now, from)}
	case to <= from:
		return &cloud.Error{Kind: cloud.Invalid, Op: op, Resource: v.ref.String(),
			Message: fmt.Sprintf("%d nodes are not more than the %d that it has: a pool is only ever grown", to, from)}
	}
	if err := v.mayGrow(op); err != nil {
		return err
	}
	_, err = r.kube.patch(ctx, op, v.pool, map[string]any{"spec": map[string]any{"replicas": to}})
	return err
}

// mayGrow tells why no place is added to the pool.
func (v view) mayGrow(op string) error {
	for _, refusal := range slices.Concat(v.refusalsToWrite(), v.topology.refuseReplicas(v.ref), refuseSize(v.pool)) {
		return refusal.Error(op, v.ref.String())
	}
	for _, late := range v.pending() {
		return &cloud.Error{Kind: cloud.Conflict, Op: op, Resource: v.ref.String(), Code: late.Reason, Message: late.Message}
	}
	return nil
}
