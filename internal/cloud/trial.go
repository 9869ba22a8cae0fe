package cloud

// TrialSpec describes a trial: an instance of a version outside its pool. The pool stays unchanged. Callers save the spec
// before the first call, so that another process can end the trial.
type TrialSpec struct {
	ImageRef
	// Name is the caller's name, unique for the capture and its attempt. The provider derives a legal resource name.
	Name string
	// RemoveBootstrap builds the instance without the bootstrap, as after the promotion.
	RemoveBootstrap bool
	// CustomData is a copy of the pool's customData, which the cloud may not return; nil without a copy. An instance with
	// the bootstrap gets the copy. Only PreflightTrial and EnsureTrial use the copy. It may contain secrets.
	CustomData []byte
	// MachineType replaces the type of the pool; empty keeps it. Only PreflightTrial and EnsureTrial use the type.
	MachineType string
	// To is the image of the version from its ImageProvider. New sets the field.
	To string
	// Tags of the objects of the trial. TagPrototype, TagUID and TagCluster name the owner.
	Tags map[string]string
	// Origin is set by Trials of InCluster only.
	Origin Origin
}

// Trial is the state of a trial.
type Trial struct {
	// State is Absent without a trial, Pending before the instance runs, and Complete afterwards. State is Failed if
	// the cloud gave up or the instance is gone, and Deleting during the removal.
	State State
	// Instances are the instances of the trial.
	Instances []Instance
	// Trouble is the cloud's message if State is Failed, or about a current problem. LacksCapacity: quota or capacity is
	// missing, which says nothing about the version. BlamesImage: the message blames the image. Neither: the cause is unknown.
	Trouble                    string
	LacksCapacity, BlamesImage bool
}

// OwnerTags returns the tags that name the owner and the end of a trial, a workshop or a copy.
func OwnerTags(tags map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{TagPrototype, TagUID, TagCluster, TagOrder, TagEndsAt} {
		if tags[name] != "" {
			out[name] = tags[name]
		}
	}
	return out
}

// MostFrequent returns the most frequent of the texts, such as instance types; of equally frequent ones the first.
func MostFrequent(all []string) (most string) {
	counts := map[string]int{}
	for _, one := range all {
		counts[one]++
	}
	for _, one := range all {
		if counts[one] > counts[most] {
			most = one
		}
	}
	return most
}
