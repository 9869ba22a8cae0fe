package karpenter

import (
	"context"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// PreflightTrial implements cloud.PoolProvider.
func (r *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	return r.apart(trials, spec.Pool, spec.Name).preflight(ctx)
}

// Trial implements cloud.PoolProvider.
func (r *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return r.apart(trials, spec.Pool, spec.Name).state(ctx)
}

// Trials implements cloud.PoolProvider.
func (r *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) (found []cloud.TrialSpec, err error) {
	all, err := r.listApart(ctx, trials, pools)
	for _, one := range all {
		found = append(found, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: one.Pool, Version: one.Version}, Name: one.Name, To: one.Image, Tags: one.Tags})
	}
	return found, err
}

// EnsureTrial implements cloud.PoolProvider.
func (r *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	return r.apart(trials, spec.Pool, spec.Name).ensure(ctx, func(ctx context.Context, v view) (apartSpec, error) {
		native, err := r.images.NativeImage(ctx, v.region, spec.To)
		return apartSpec{apartRecord: apartRecord{Version: spec.Version, Image: spec.To, Tags: spec.Tags}, native: native, instanceType: spec.MachineType}, err
	})
}

// EndTrial implements cloud.PoolProvider.
func (r *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	return r.apart(trials, spec.Pool, spec.Name).end(ctx)
}

// CanBuildWorkshops implements cloud.PoolProvider.
func (r *PoolProvider) CanBuildWorkshops() bool { return true }

// PreflightWorkshop implements cloud.PoolProvider.
func (r *PoolProvider) PreflightWorkshop(ctx context.Context, spec cloud.WorkshopSpec) ([]cloud.Refusal, error) {
	return r.apart(workshops, spec.Pool, spec.Name).preflight(ctx)
}

// Workshop implements cloud.PoolProvider.
func (r *PoolProvider) Workshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	return r.apart(workshops, spec.Pool, spec.Name).state(ctx)
}

// Workshops implements cloud.PoolProvider.
func (r *PoolProvider) Workshops(ctx context.Context, pools ...cloud.PoolID) (found []cloud.WorkshopSpec, err error) {
	all, err := r.listApart(ctx, workshops, pools)
	for _, one := range all {
		found = append(found, cloud.WorkshopSpec{Pool: one.Pool, Name: one.Name, Tags: one.Tags})
	}
	return found, err
}

// EnsureWorkshop implements cloud.PoolProvider. The instance has the tag by which IAM policies allow the attachment of disks.
func (r *PoolProvider) EnsureWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.Trial, error) {
	return r.apart(workshops, spec.Pool, spec.Name).ensure(ctx, func(_ context.Context, v view) (apartSpec, error) {
		return apartSpec{apartRecord: apartRecord{Image: v.image, Tags: spec.Tags}, native: v.native, instanceType: spec.InstanceType, tag: cloud.TagWorkshop}, nil
	})
}

// EndWorkshop implements cloud.PoolProvider.
func (r *PoolProvider) EndWorkshop(ctx context.Context, spec cloud.WorkshopSpec) (cloud.State, error) {
	return r.apart(workshops, spec.Pool, spec.Name).end(ctx)
}
