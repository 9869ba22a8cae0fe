package cloud

import "context"

// Reasons of refusals of a trial.
const (
	// PromotionRemoves: the promotion removes a part of the recipe, but a trial in the pool cannot.
	PromotionRemoves = "PromotionRemoves"
	// PoolNotCopyable: an instance outside the pool would need data that the cloud does not return.
	PoolNotCopyable = "PoolNotCopyable"
	// TrialBesideOnly: the cloud has trials outside the pool only.
	TrialBesideOnly = "TrialBesideOnly"
)

// TrialSpec describes a trial. Callers save the spec before the first call, so that another process can end the trial.
type TrialSpec struct {
	ImageRef
	// Name is the caller's name, unique for the capture and its attempt. The provider derives a legal resource name.
	Name string
	// InPool grows the pool by the instance. Otherwise the instance is outside the pool, and the pool stays unchanged.
	InPool bool
	// RemoveBootstrap builds the instance without the bootstrap, as after the promotion. It is impossible in the pool,
	// where only the image of the recipe changes.
	RemoveBootstrap bool
	// CustomData is a copy of the pool's customData, which the cloud may not return; nil without a copy. An instance apart
	// with the bootstrap gets the copy. Only PreflightTrial and EnsureTrial use the copy. It may contain secrets.
	CustomData []byte
	// Image and Capacity are those of the pool at the decision about the trial. A trial in the pool restores Image.
	// Both are empty for a preflight.
	Image    string
	Capacity int64
	// To is the image of the version from its ImageProvider. New sets the field.
	To string
	// Tags of the objects outside the pool. TagPrototype and TagUID name the owner.
	Tags map[string]string
}

// Trial is the state of a trial.
type Trial struct {
	// State is Absent without a trial, Pending before the instance runs, and Complete afterwards. State is Failed if
	// the cloud gave up or the instance is gone, and Deleting during the removal.
	State State
	// Open is true if the pool's recipe names the version for the trial, so that new instances of the pool use the
	// version. Always false outside the pool.
	Open bool
	// Instances are the instances of the trial. In the pool these are all instances created while the recipe was open:
	// the requested instance, and instances requested by an autoscaler or a person meanwhile.
	Instances []Instance
	// Trouble is the cloud's message if State is Failed, or about a current problem; empty if the instance is gone
	// without a message. NoRoom is true for missing quota or capacity, which says nothing about the version. Blames is
	// true if the message is known to blame the image. If both are false, the cause is unknown.
	Trouble        string
	NoRoom, Blames bool
}

// TrialRunner is the power to build an instance from a version before its promotion. A PoolProvider implements TrialRunner. It is
// optional: use As.
type TrialRunner interface {
	// PreflightTrial returns every obstacle to a trial apart from the version: a missing permission, an exhausted
	// quota, a pool that cannot be copied, a recipe that cannot be restored. Nil means no obstacle. The version need
	// not exist.
	PreflightTrial(ctx context.Context, spec TrialSpec) ([]Refusal, error)

	// Trial returns the state of a trial. A trial that never began, or whose pool is deleted, is Absent without error.
	Trial(ctx context.Context, spec TrialSpec) (Trial, error)

	// Trials returns the unfinished trials of the pools from the cloud's own records, because the process that began a
	// trial may be gone. Each spec is complete for reading and ending the trial, except Capacity, RemoveBootstrap and
	// other tags than TagPrototype and TagUID. Trials changes nothing.
	Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error)

	// EnsureTrial begins the trial if it does not exist, and returns its state. Before EndTrial it never builds a
	// second instance for a spec, even if the first is gone. EnsureTrial returns NotFound without the version, and
	// Conflict for an incomplete version.
	//
	// In the pool, recipe and capacity change in one write. EnsureTrial returns Conflict, without a change, if recipe
	// or capacity differ from the spec. The same holds during another trial in the pool, or if instances of the version
	// exist.
	//
	// EnsureTrial returns Refused as SetRecipe does, and QuotaExceeded if the cloud reports missing room at once.
	EnsureTrial(ctx context.Context, spec TrialSpec) (Trial, error)

	// CloseTrial restores the image of the pool's recipe, if the recipe names the version and was opened for this
	// trial. Instances and other changes stay. CloseTrial does nothing outside the pool, for a closed trial, or if the
	// recipe names a third image.
	CloseTrial(ctx context.Context, spec TrialSpec) error

	// EndTrial closes the trial and starts to remove everything of it. EndTrial returns Deleting, or Absent after the
	// removal. In the pool only the trial's instances are removed, and the pool shrinks with each. If the recipe names
	// the version again since the trial was closed, a person has promoted the version, and the instances stay.
	//
	// Repeated calls are harmless. EndTrial does nothing for a trial that never began.
	EndTrial(ctx context.Context, spec TrialSpec) (State, error)
}

// OwnerTags returns the tags that name the owner of a trial.
func OwnerTags(tags map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{TagPrototype, TagUID} {
		if tags[name] != "" {
			out[name] = tags[name]
		}
	}
	return out
}
