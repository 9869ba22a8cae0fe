package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A workshop is a scale set next to the pool, as that of a trial, from the pool's model as it is. The copy of a donor's disk is
// attached later, because a machine that boots with two roots of the same labels and UUIDs may boot the other.

var ofWorkshop = apartKind{noun: "workshop", op: "build the workshop of", prefix: "kamino-workshop-", host: "kw", mark: "kamino-workshop-name",
	feature: cloud.ForCopy, without: "capture the node in place, if it can return (settings.donor.method: InPlace)"}

func workshopOf(spec cloud.WorkshopSpec) (apartRef, error) {
	pool, err := parsePool(spec.Pool)
	return apartRef{versionRef: versionRef{scaleSet: pool}, apartKind: ofWorkshop, vmSize: spec.InstanceType,
		spec: cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: spec.Pool}, Name: spec.Name, CustomData: spec.CustomData, Tags: spec.Tags}}, err
}

// workshopBuilder implements cloud.WorkshopBuilder.
type workshopBuilder struct{ account *account }

func (p workshopBuilder) trials() trials { return trials{newPoolProvider(p.account)} }

// CanBuildWorkshops implements cloud.PoolProvider.
func (p workshopBuilder) CanBuildWorkshops() bool { return true }

// PreflightWorkshop implements cloud.PoolProvider as PreflightTrial does.
func (p workshopBuilder) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	t, err := workshopOf(spec)
	if err != nil {
		return nil, err
	}
	model, err := p.trials().model(ctx, t.scaleSet)
	if err != nil {
		return nil, err
	}
	return p.trials().refuseApart(ctx, t, model)
}

// Workshop implements cloud.PoolProvider.
func (p workshopBuilder) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	t, err := workshopOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return p.trials().trialApart(ctx, t)
}

// Workshops implements cloud.PoolProvider with a request per resource group and page.
func (p workshopBuilder) Workshops(ctx context.Context, pools ...cloud.PoolID) (found []cloud.WorkshopSpec, err error) {
	err = p.trials().eachApart(ctx, pools, func(model armcompute.VirtualMachineScaleSet, at scaleSet, sets []scaleSet) {
		if t, is := apartIn(ofWorkshop, model, at, sets); is {
			found = append(found, cloud.WorkshopSpec{Pool: t.pool(), Name: t.spec.Name, Tags: t.spec.Tags})
		}
	})
	return found, err
}

// EnsureWorkshop implements cloud.PoolProvider.
func (p workshopBuilder) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	t, err := workshopOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return p.trials().ensureApart(cloud.WithoutReadCache(ctx), t)
}

// EndWorkshop implements cloud.PoolProvider. Azure detaches the disks that were attached to the instance, and keeps them.
func (p workshopBuilder) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	t, err := workshopOf(spec)
	if err != nil {
		return cloud.Absent, err
	}
	return p.trials().removeApart(ctx, t)
}
