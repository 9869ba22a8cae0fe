package cloud

import "context"

// Reasons of refusals of a trial.
const (
	// PromotionRemoves: the promotion takes something out of the recipe, which a trial in the pool does not do.
	PromotionRemoves = "PromotionRemoves"
	// PoolNotCopyable: what an instance beside the pool would need is not given out by the cloud.
	PoolNotCopyable = "PoolNotCopyable"
	// TrialBesideOnly: in this cloud a version is tried beside the pool, and never in it.
	TrialBesideOnly = "TrialBesideOnly"
)

// TrialSpec names an instance that is built from a version for a trial alone. Whoever asks keeps it before the first call, so
// that whoever comes later can end what was begun.
type TrialSpec struct {
	ImageRef
	// Name is the caller's, unique for the capture and its attempt; the provider derives a legal resource name from it.
	Name string
	// InPool has the pool grow by the instance. Otherwise it is built apart, beside the pool, and the pool is not touched.
	InPool bool
	// RemoveBootstrap builds it as nodes are built once the promotion has taken the bootstrap out of the recipe. It cannot be
	// had in the pool, where the recipe only changes its image.
	RemoveBootstrap bool
	// Image that the recipe named, as the cloud writes it, and Capacity of the pool, when the trial was decided. The image is
	// given back in the pool. Both are empty for a preflight.
	Image    string
	Capacity int64
	// To is the image of the version, by its Disks. Join fills it in.
	To string
	// Tags of what is made apart: TagPrototype and TagUID tell whose it is.
	Tags map[string]string
}

// Trial is how far the instance of a trial is.
type Trial struct {
	// State is Absent where nothing is left of it, Pending until its instance runs, Complete from then on, Failed where the
	// cloud gave up or the instance is gone, and Deleting while it goes.
	State State
	// Open tells that the pool's recipe names the version for the trial, so that whatever the pool grows by is built from it.
	// Always false apart.
	Open bool
	// Instances that were built for it. In the pool these are all that it got while its recipe was open: the one that was
	// asked for, and what an autoscaler or a person asked for meanwhile.
	Instances []Instance
	// Trouble is the cloud's own text where State is Failed, or while it is in the way; empty where the instance is gone, of which
	// the cloud says nothing. NoRoom tells that it has no quota or
	// capacity left, which says nothing of the version; Blames that the cloud is known to say this of images that are at fault.
	// With neither, nobody knows what is to blame.
	Trouble        string
	NoRoom, Blames bool
}

// Trialist is the power to build an instance from a version before the pool's recipe names it for good. It belongs to
// Recipes. It is optional: a caller asks with As.
type Trialist interface {
	// PreflightTrial looks for everything that would make a trial fail for another reason than the version: a missing
	// permission, a used-up quota, a pool that cannot be copied or whose recipe cannot be given back. Nil means that
	// nothing was found. The version need not exist yet.
	PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error)

	// Trial looks how far it is. One that was never begun is Absent, which is no error, and so is one whose pool is gone.
	Trial(ctx context.Context, spec TrialSpec) (Trial, error)

	// Trials lists the trials of the pools that were begun and have not ended, by what the cloud carries of them: whoever began
	// them may be gone. Each is the spec to look at it and to end it by, but for Capacity, RemoveBootstrap and Tags other than
	// TagPrototype and TagUID. It is a look.
	Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error)

	// EnsureTrial begins it unless it is there, and tells how far it is. Until EndTrial it never builds a second instance for
	// one spec, whatever became of the first. NotFound if the version does not exist, and Conflict if it is not Complete. In the
	// pool, recipe and capacity change in one write: Conflict, with nothing changed, if they are not what the spec says, if
	// another trial is in the pool, or if instances of the version are there already. Refused as SetRecipe is, and
	// QuotaExceeded where the cloud says at once that there is no room.
	EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error)

	// CloseTrial gives the pool's recipe the image back that it had, if it names the version and was opened for this trial;
	// instances stay what they were built from, and whatever else somebody changed stays, too. Apart, and where it is closed
	// or names a third image, it does nothing.
	CloseTrial(ctx context.Context, spec TrialSpec) error

	// EndTrial starts to remove all that the trial has made, closes it, and tells how far that is: Deleting, or Absent once
	// nothing is left. In the pool each of its instances goes with its place, and no other does; where its recipe names the
	// version again since it was closed, somebody has promoted it, and the instances stay. Repeating it is harmless, and of
	// one that was never begun it does nothing.
	EndTrial(ctx context.Context, spec TrialSpec) (State, error)
}

// OwnerTags are those of the tags that tell whose a trial is.
func OwnerTags(tags map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{TagPrototype, TagUID} {
		if tags[name] != "" {
			out[name] = tags[name]
		}
	}
	return out
}
