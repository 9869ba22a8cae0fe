package cloud

import "context"

// A trial of a joined provider is a trial of its PoolProvider, with the version's image from its ImageProvider.

// tried returns the power of the PoolProvider, and the spec with the version's image.
func (j *joined) tried(ctx context.Context, spec TrialSpec) (TrialRunner, TrialSpec, error) {
	at, err := j.ref(ctx, spec.ImageRef)
	if err == nil {
		spec.To = j.disks.ImageID(at)
	}
	return j.recipes.(TrialRunner), spec, err
}

// shown sets the versions of the trial's instances from the ImageProvider.
func (j *joined) shown(spec TrialSpec, trial Trial, err error) (Trial, error) {
	for i := range trial.Instances {
		trial.Instances[i].BuiltFrom = j.BuiltFrom(spec.Pool, trial.Instances[i])
	}
	return trial, err
}

// PreflightTrial implements TrialRunner.
func (j *joined) PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error) {
	power, spec, err := j.tried(ctx, spec)
	if err != nil {
		return nil, err
	}
	return power.PreflightTrial(ctx, spec)
}

// Trial implements TrialRunner.
func (j *joined) Trial(ctx context.Context, spec TrialSpec) (Trial, error) {
	power, spec, err := j.tried(ctx, spec)
	if err != nil {
		return Trial{}, err
	}
	trial, err := power.Trial(ctx, spec)
	return j.shown(spec, trial, err)
}

// Trials implements TrialRunner.
func (j *joined) Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error) {
	return j.recipes.(TrialRunner).Trials(ctx, pools...)
}

// EnsureTrial implements TrialRunner. The ImageProvider check the version before anything begins.
func (j *joined) EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error) {
	power, spec, err := j.tried(ctx, spec)
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
	trial, err := power.EnsureTrial(ctx, spec)
	return j.shown(spec, trial, err)
}

// CloseTrial implements TrialRunner.
func (j *joined) CloseTrial(ctx context.Context, spec TrialSpec) error {
	power, spec, err := j.tried(ctx, spec)
	if err != nil {
		return err
	}
	return power.CloseTrial(ctx, spec)
}

// EndTrial implements TrialRunner.
func (j *joined) EndTrial(ctx context.Context, spec TrialSpec) (State, error) {
	power, spec, err := j.tried(ctx, spec)
	if err != nil {
		return Absent, err
	}
	return power.EndTrial(ctx, spec)
}
