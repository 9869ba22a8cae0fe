package cloud

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
