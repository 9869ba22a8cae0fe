package cloud

import "context"

// A trial of a joined provider is a trial of its PoolProvider, with the version's image from its ImageProvider.

// withImage returns the spec with the version's image.
func (t joinedTrials) withImage(ctx context.Context, spec TrialSpec) (TrialSpec, error) {
	at, err := t.both.ref(ctx, spec.ImageRef)
	if err == nil {
		spec.To = t.both.disks.ImageID(at)
	}
	return spec, err
}

// shown sets the versions of the trial's instances from the ImageProvider.
func (j *joined) shown(pool PoolID, trial Trial) Trial {
	for i := range trial.Instances {
		trial.Instances[i].BuiltFrom = j.BuiltFrom(pool, trial.Instances[i])
	}
	return trial
}

// PreflightTrial implements TrialBuilder.
func (t joinedTrials) PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error) {
	spec, err := t.withImage(ctx, spec)
	if err != nil {
		return nil, err
	}
	return t.TrialBuilder.PreflightTrial(ctx, spec)
}

// Trial implements TrialBuilder.
func (t joinedTrials) Trial(ctx context.Context, spec TrialSpec) (Trial, error) {
	spec, err := t.withImage(ctx, spec)
	if err != nil {
		return Trial{}, err
	}
	trial, err := t.TrialBuilder.Trial(ctx, spec)
	return t.both.shown(spec.Pool, trial), err
}

// EnsureTrial implements TrialBuilder. The ImageProvider checks the version before anything begins.
func (t joinedTrials) EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error) {
	spec, err := t.withImage(ctx, spec)
	if err != nil {
		return Trial{}, err
	}
	image, err := t.both.Image(ctx, spec.ImageRef)
	if err != nil {
		return Trial{}, err
	}
	if image.State != Complete {
		kind, is := Conflict, string(image.State)
		if image.State == Absent {
			kind, is = NotFound, "absent"
		}
		return Trial{}, &Error{Kind: kind, Op: "begin the trial of", Resource: "version " + spec.Version + " of pool " + t.both.recipes.PoolName(spec.Pool),
			Message: "the version is " + is + ": choose a Complete version"}
	}
	trial, err := t.TrialBuilder.EnsureTrial(ctx, spec)
	return t.both.shown(spec.Pool, trial), err
}

// EndTrial implements TrialBuilder.
func (t joinedTrials) EndTrial(ctx context.Context, spec TrialSpec) (State, error) {
	spec, err := t.withImage(ctx, spec)
	if err != nil {
		return Absent, err
	}
	return t.TrialBuilder.EndTrial(ctx, spec)
}
