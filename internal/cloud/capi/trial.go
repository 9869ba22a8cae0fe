package capi

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A trial is a separate Machine with another image than the pool's.

// trials is the use of the Machines of trials.
var trials = use{noun: "trial", op: "try a version of", feature: cloud.ForTrialApart, instead: ", or disable trials"}

// PreflightTrial implements cloud.PoolProvider.
func (r *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	a, err := r.apart(trials, spec.Pool, spec.Name)
	if err != nil {
		return nil, err
	}
	return a.preflight(ctx)
}

// Trial implements cloud.PoolProvider.
func (r *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	a, err := r.apart(trials, spec.Pool, spec.Name)
	if err != nil {
		return cloud.Trial{}, err
	}
	return a.state(ctx)
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
	a, err := r.apart(trials, spec.Pool, spec.Name)
	if err != nil {
		return cloud.Trial{}, err
	}
	return a.ensure(ctx, func(ctx context.Context, v poolView) (apartSpec, error) {
		native, err := r.images.NativeImage(ctx, v.at.place, spec.To)
		if err != nil {
			return apartSpec{}, err
		}
		kind := spec.MachineType
		if kind == "" {
			kind, err = r.typeOfTrial(ctx, v)
		}
		return apartSpec{apartRecord: apartRecord{Version: spec.Version, Image: spec.To, Tags: spec.Tags}, native: native, instanceType: kind}, err
	})
}

// typeOfTrial returns the most frequent type of the instances of a mixed group, so that the trial has nodes to be compared with; empty for the
// type of the template.
func (r *PoolProvider) typeOfTrial(ctx context.Context, v poolView) (string, error) {
	overrides, _, _ := unstructured.NestedSlice(v.template.Object, "spec", "mixedInstancesPolicy", "overrides")
	if len(overrides) == 0 {
		return "", nil
	}
	instances, err := r.Instances(ctx, v.ref.pool())
	var named, all []string
	for _, o := range overrides {
		if one, is := o.(map[string]any); is && spec(one).text("instanceType") != "" {
			named = append(named, spec(one).text("instanceType"))
		}
	}
	for i := range instances {
		if slices.Contains(named, instances[i].Type) {
			all = append(all, instances[i].Type)
		}
	}
	return cloud.MostFrequent(all), err
}

// EndTrial implements cloud.PoolProvider.
func (r *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	a, err := r.apart(trials, spec.Pool, spec.Name)
	if err != nil {
		return cloud.Absent, err
	}
	return a.end(ctx)
}
