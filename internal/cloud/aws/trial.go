package aws

import (
	"context"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// A trial is an instance beside the group, from the group's launch template version with the image under test. The group
// stays unchanged, so that a trial leaves nothing behind.

const opTry = "try a version of"

// trials is the kind of the instances of trials.
var trials = besideRef{noun: "trial", tag: tagTrial}

func trialOf(spec cloud.TrialSpec) (besideRef, error) {
	ref, err := parsePool(spec.Pool)
	return besideRef{ref, trials.noun, trials.tag, spec.Name, spec.Tags[cloud.TagUID]}, err
}

// PreflightTrial implements cloud.PoolProvider.
func (p *PoolProvider) PreflightTrial(ctx context.Context, spec cloud.TrialSpec) ([]cloud.Refusal, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return nil, err
	}
	r, err := p.recipe(ctx, ref.group)
	if err != nil {
		return nil, err
	}
	if found := refuseBeside(ref, r, "set settings.trial.mode to Off"); len(found) > 0 {
		return found, nil
	}
	in := launch(ref, r, besideSpec{
		ami: sdk.ToString(r.data.ImageId), version: spec.Version, instanceType: types.InstanceType(spec.MachineType), tags: spec.Tags,
	})
	return p.launches.denied(ctx, "try to launch for", ref, in, cloud.ForTrialApart)
}

// Trial implements cloud.PoolProvider.
func (p *PoolProvider) Trial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	return p.launches.get(ctx, ref)
}

// Trials implements cloud.PoolProvider.
func (p *PoolProvider) Trials(ctx context.Context, pools ...cloud.PoolID) ([]cloud.TrialSpec, error) {
	all, err := p.launches.list(ctx, trials, pools)
	var found []cloud.TrialSpec
	for _, one := range all {
		found = append(found, cloud.TrialSpec{ImageRef: cloud.ImageRef{Pool: one.ref.pool(), Version: one.version}, Name: one.ref.name, Tags: one.tags})
	}
	return found, err
}

// EnsureTrial implements cloud.PoolProvider.
func (p *PoolProvider) EnsureTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.Trial, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return cloud.Trial{}, err
	}
	ctx = cloud.WithoutReadCache(ctx)
	found, err := p.launches.get(ctx, ref)
	if err != nil || found.State != cloud.Absent {
		return found, err
	}
	r, err := p.recipe(ctx, ref.group)
	if err != nil {
		return cloud.Trial{}, err
	}
	if refusals := refusalsOfTemplate(ref.group, r); len(refusals) > 0 {
		return cloud.Trial{}, refusals[0].Error(opTry, ref.String())
	}
	ami, err := p.ami(ctx, opTry, ref.group, ref.region, spec.To)
	if err != nil {
		return cloud.Trial{}, err
	}
	return p.launches.ensure(ctx, opTry, ref, r, besideSpec{
		ami: ami, version: spec.Version, instanceType: types.InstanceType(spec.MachineType), tags: spec.Tags,
	})
}

// EndTrial implements cloud.PoolProvider.
func (p *PoolProvider) EndTrial(ctx context.Context, spec cloud.TrialSpec) (cloud.State, error) {
	ref, err := trialOf(spec)
	if err != nil {
		return cloud.Absent, err
	}
	return p.launches.end(ctx, ref)
}
