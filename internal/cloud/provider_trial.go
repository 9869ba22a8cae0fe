package cloud

import "context"

// A trial of a joined provider is a trial of its PoolProvider, with the version's image from its ImageProvider.

// withImage returns the spec with the version's image.
func (j *joined) withImage(ctx context.Context, spec TrialSpec) (TrialSpec, error) {
	at, err := j.ref(ctx, spec.ImageRef)
	if err == nil {
		spec.To = j.disks.ImageID(at)
	}
	return spec, err
}

// shown sets the versions of the trial's instances from the ImageProvider.
func (j *joined) shown(spec TrialSpec, trial Trial, err error) (Trial, error) {
	for i := range trial.Instances {
		trial.Instances[i].BuiltFrom = j.BuiltFrom(spec.Pool, trial.Instances[i])
	}
	return trial, err
}

// PreflightTrial implements Provider.
func (j *joined) PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error) {
	spec, err := j.withImage(ctx, spec)
	if err != nil {
		return nil, err
	}
	return j.recipes.PreflightTrial(ctx, spec)
}

// Trial implements Provider.
func (j *joined) Trial(ctx context.Context, spec TrialSpec) (Trial, error) {
	spec, err := j.withImage(ctx, spec)
	if err != nil {
		return Trial{}, err
	}
	trial, err := j.recipes.Trial(ctx, spec)
	return j.shown(spec, trial, err)
}

// EnsureTrial implements Provider. The ImageProvider checks the version before anything begins.
func (j *joined) EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error) {
	spec, err := j.withImage(ctx, spec)
	if err != nil {
		return Trial{}, err
	}
	image, err := j.Image(ctx, spec.ImageRef)
	if err != nil {
		return Trial{}, err
	}
	if image.State != Complete {
		kind, is := Conflict, string(image.State)
		if image.State == Absent {
			kind, is = NotFound, "absent"
		}
		return Trial{}, &Error{Kind: kind, Op: "begin the trial of", Resource: "version " + spec.Version + " of pool " + j.PoolName(spec.Pool),
			Message: "the version is " + is + ": choose a Complete version"}
	}
	trial, err := j.recipes.EnsureTrial(ctx, spec)
	return j.shown(spec, trial, err)
}

// EndTrial implements Provider.
func (j *joined) EndTrial(ctx context.Context, spec TrialSpec) (State, error) {
	spec, err := j.withImage(ctx, spec)
	if err != nil {
		return Absent, err
	}
	return j.recipes.EndTrial(ctx, spec)
}
