package capi

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A workshop is a separate Machine from the pool's templates as they are. The ImageProvider attaches the copy of a donor's disk to
// its instance later. Cluster API's controllers, CAPA and CAPZ ignore the disk, except that CAPA gives it the tags of the instance. CAPZ
// never writes a VM that exists, and deletes disks that it knows by name. Sources: CAPA, AWSMachineReconciler.ensureStorageTags; CAPZ,
// VMSpec.Parameters and disks.Service.

// Annotations with which Cluster API deletes a Machine without a drain, and without waiting for volumes of pods.
const (
	annotationNoDrain  = "machine.cluster.x-k8s.io/exclude-node-draining"
	annotationNoDetach = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
)

// workshops is the use of the Machines of workshops. A workshop runs no pods of users. A pod that slipped in and may not be
// evicted must not keep the workshop.
var workshops = use{noun: "workshop", op: "build a workshop for", feature: cloud.ForCopy,
	annotations: map[string]string{annotationNoDrain: "", annotationNoDetach: ""}}

// workshopBuilder implements cloud.WorkshopBuilder.
type workshopBuilder struct{ access *clusterAccess }

func (b workshopBuilder) of(spec cloud.WorkshopSpec) (apart, error) {
	return b.access.apart(workshops, spec.Pool, spec.Name)
}

// CanBuildWorkshops implements cloud.PoolProvider.
func (b workshopBuilder) CanBuildWorkshops() bool { return true }

// PreflightWorkshop implements cloud.PoolProvider.
func (b workshopBuilder) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	a, err := b.of(spec)
	if err != nil {
		return nil, err
	}
	return a.preflight(ctx)
}

// Workshop implements cloud.PoolProvider.
func (b workshopBuilder) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	a, err := b.of(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return a.state(ctx)
}

// Workshops implements cloud.PoolProvider.
func (b workshopBuilder) Workshops(ctx context.Context, pools ...cloud.PoolID) (found []cloud.WorkshopSpec, err error) {
	all, err := b.access.listApart(ctx, workshops, pools)
	for _, one := range all {
		found = append(found, cloud.WorkshopSpec{Pool: one.Pool, Name: one.Name, Tags: one.Tags})
	}
	return found, err
}

// EnsureWorkshop implements cloud.PoolProvider.
func (b workshopBuilder) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	a, err := b.of(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return a.ensure(ctx, func(ctx context.Context, v poolView) (apartSpec, error) {
		like := apartSpec{apartRecord: apartRecord{Tags: spec.Tags}, instanceType: spec.InstanceType, tag: cloud.TagWorkshop}
		native := v.of.image(v.machine())
		if native == "" {
			return like, nil
		}
		var err error
		like.Image, err = b.access.images.ImageText(ctx, v.at.place, native)
		return like, err
	})
}

// EndWorkshop implements cloud.PoolProvider.
func (b workshopBuilder) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	a, err := b.of(spec)
	if err != nil {
		return cloud.Absent, err
	}
	return a.end(ctx)
}
