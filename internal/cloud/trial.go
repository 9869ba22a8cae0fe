package cloud

import "context"

// TrialSpec names an instance that is built from a version for a trial alone. Whoever asks keeps it before the first call, so
// that whoever comes later can end what was begun.
type TrialSpec struct {
	ImageRef
	// Name is the caller's, unique for the capture and its attempt; the provider derives a legal resource name from it.
	Name string
	// InPool has the pool grow by the instance. Otherwise it is built apart, beside the pool, and the pool is not touched.
	InPool bool
	// RemoveBootstrap builds it as nodes are built once the promotion has taken the bootstrap out of the recipe.
	RemoveBootstrap bool
	// Image that the recipe named, as the cloud writes it, and Capacity of the pool, when the trial was decided. In the pool
	// both are given back.
	Image    string
	Capacity int64
	// Tags of what is made apart: TagPrototype and TagUID tell whose it is.
	Tags map[string]string
}

// Trial is how far the instance of a trial is.
type Trial struct {
	// State is Absent where nothing is left of it, Pending until its instance runs, Complete from then on, Failed where the
	// cloud gave up, and Deleting while it goes.
	State State
	// Open tells that the pool's recipe names the version for the trial, so that whatever the pool grows by is built from it.
	// Always false apart.
	Open bool
	// Instances that were built for it. In the pool that is every one which it got while its recipe was open.
	Instances []Instance
	// Trouble is the cloud's own text where State is Failed, or while it is in the way; NoRoom tells that it has no quota or
	// capacity left, which says nothing of the version.
	Trouble string
	NoRoom  bool
}

// Trialist is the power to build an instance from a version before the pool's recipe names it for good. It belongs to
// Recipes. It is optional: a caller asks with As.
type Trialist interface {
	// PreflightTrial looks for everything that would make a trial fail for another reason than the version: a missing
	// permission, a used-up quota, a pool that cannot be copied or whose recipe cannot be given back. Nil means that
	// nothing was found. The version need not exist yet.
	PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error)

	// Trial looks how far it is. One that was never begun is Absent, which is no error.
	Trial(ctx context.Context, spec TrialSpec) (Trial, error)

	// EnsureTrial begins it unless it is there, and tells how far it is. It never builds a second instance for one spec,
	// whatever became of the first. In the pool, recipe and capacity change in one write: Conflict, with nothing changed, if
	// they are not what the spec says. Refused as SetRecipe is.
	EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error)

	// CloseTrial gives the pool's recipe the image back that it had, if it names the version and was opened for this trial;
	// instances stay what they were built from. Apart, and where it is closed, it does nothing.
	CloseTrial(ctx context.Context, spec TrialSpec) error

	// EndTrial starts to remove all that the trial has made, closes it, and tells how far that is: Deleting, or Absent once
	// nothing is left. In the pool each of its instances goes with its place, and no other does. Repeating it is harmless.
	EndTrial(ctx context.Context, spec TrialSpec) (State, error)
}
