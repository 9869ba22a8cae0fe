package aws

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A workshop is an instance beside the group, from the group's launch template version as it is. The copy of a donor's disk is
// attached later, because a machine that boots with two roots of the same labels and UUIDs may boot the other.

const opWorkshop = "build"

// workshops is the kind of the instances of workshops.
var workshops = besideRef{noun: "workshop", tag: cloud.TagWorkshop}

// workshopBuilder implements cloud.WorkshopBuilder.
type workshopBuilder struct {
	account  *account
	launches launches
}

func workshopOf(spec cloud.WorkshopSpec) (besideRef, error) {
	ref, err := parsePool(spec.Pool)
	return besideRef{ref, workshops.noun, workshops.tag, spec.Name, spec.Tags[cloud.TagUID]}, err
}

// likeNext is the spec of an instance as the group launches its next one.
func likeNext(r recipe, spec cloud.WorkshopSpec) besideSpec {
	return besideSpec{ami: sdk.ToString(r.data.ImageId), instanceType: types.InstanceType(spec.InstanceType), tags: spec.Tags}
}

// CanBuildWorkshops implements cloud.PoolProvider.
func (p workshopBuilder) CanBuildWorkshops() bool { return true }

// PreflightWorkshop implements cloud.PoolProvider.
func (p workshopBuilder) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	ref, err := workshopOf(spec)
	if err != nil {
		return nil, err
	}
	r, err := p.account.recipe(ctx, ref.group)
	if err != nil {
		return nil, err
	}
	if found := refuseBeside(ref, r, "capture the node in place, if it can return"); len(found) > 0 {
		return found, nil
	}
	return p.launches.denied(ctx, "try to launch for", ref, launch(ref, r, likeNext(r, spec)), cloud.ForCopy)
}

// Workshop implements cloud.PoolProvider.
func (p workshopBuilder) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	ref, err := workshopOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return p.launches.get(ctx, ref)
}

// Workshops implements cloud.PoolProvider.
func (p workshopBuilder) Workshops(ctx context.Context, pools ...cloud.PoolID) ([]cloud.WorkshopSpec, error) {
	all, err := p.launches.list(ctx, workshops, pools)
	var found []cloud.WorkshopSpec
	for _, one := range all {
		found = append(found, cloud.WorkshopSpec{Pool: one.ref.pool(), Name: one.ref.name, Tags: one.tags})
	}
	return found, err
}

// EnsureWorkshop implements cloud.PoolProvider.
func (p workshopBuilder) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	ref, err := workshopOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	found, err := p.launches.get(ctx, ref)
	if err != nil || found.State != cloud.Absent {
		return found, err
	}
	r, err := p.account.recipe(ctx, ref.group)
	if err != nil {
		return cloud.Trial{}, err
	}
	if refusals := refuseBeside(ref, r, "capture the node in place, if it can return"); len(refusals) > 0 {
		return cloud.Trial{}, refusals[0].Error(opWorkshop, ref.String())
	}
	return p.launches.ensure(ctx, opWorkshop, ref, r, likeNext(r, spec))
}

// EndWorkshop implements cloud.PoolProvider.
func (p workshopBuilder) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	ref, err := workshopOf(spec)
	if err != nil {
		return cloud.Absent, err
	}
	return p.launches.end(ctx, ref)
}
