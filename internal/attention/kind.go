package attention

import "fmt"

// Kind is the kind of an item.
type Kind string

// Kinds of items. Each alert of the chart belongs to one kind.
const (
	// ControllerAbsent: no process works, although a capture waits or the last process died.
	ControllerAbsent Kind = "ControllerAbsent"
	// NodeLeft: no running capture releases a reserved node.
	NodeLeft Kind = "NodeLeft"
	// Leftover: a capture that has ended or is deleted left an object.
	Leftover Kind = "Leftover"
	// CaptureFailed: the last capture of a pool failed. TrialFailed: it failed in its trial.
	CaptureFailed Kind = "CaptureFailed"
	TrialFailed   Kind = "TrialFailed"
	// CaptureWaits: a capture needs a person (condition Stalled).
	CaptureWaits Kind = "CaptureWaits"
	// DonorHeldLong: a donor is out of service for longer than its settings allow.
	DonorHeldLong Kind = "DonorHeldLong"
	// AwaitingPromotion: a version waits for approval.
	AwaitingPromotion Kind = "AwaitingPromotion"
	// PolicyStalled and PolicyDegraded: a policy needs a person, for itself or for a pool.
	PolicyStalled  Kind = "PolicyStalled"
	PolicyDegraded Kind = "PolicyDegraded"
	// CurrentVersionMissing: the recipe names a version that does not exist.
	CurrentVersionMissing Kind = "CurrentVersionMissing"
	// VersionQuarantined: the recipe names a quarantined version.
	VersionQuarantined Kind = "VersionQuarantined"
	// PoolRolledBack: Kamino rolled back a pool, and no person has acknowledged it. PoolRollingBack: the rollback runs.
	PoolRolledBack  Kind = "PoolRolledBack"
	PoolRollingBack Kind = "PoolRollingBack"
	// NodesDoNotJoin: nodes of the version in use do not join.
	NodesDoNotJoin Kind = "NodesDoNotJoin"
	// PatchesNotChecked and PatchesQuarantined: the pending patches are unknown, or failed on a pioneer.
	PatchesNotChecked  Kind = "PatchesNotChecked"
	PatchesQuarantined Kind = "PatchesQuarantined"
	// ManyImages: the nodes of a pool use nearly as many images as the cloud allows.
	ManyImages Kind = "ManyImages"
	// CaptureRefused: a capture is due and refused.
	CaptureRefused Kind = "CaptureRefused"
	// NotRebuilt: a node of an old image is not rebuilt.
	NotRebuilt Kind = "NotRebuilt"
	// ImageOld, NoCandidates and NeverCaptured: the image ages, or there is none.
	ImageOld      Kind = "ImageOld"
	NoCandidates  Kind = "NoCandidates"
	NeverCaptured Kind = "NeverCaptured"
	// NodesFromGenericImage: the recipe names a base image, although the pool has an image of Kamino.
	NodesFromGenericImage Kind = "NodesFromGenericImage"
	// NotAllowed, Throttled and CloudUnavailable: the cloud does not answer as it should.
	NotAllowed       Kind = "NotAllowed"
	Throttled        Kind = "Throttled"
	CloudUnavailable Kind = "CloudUnavailable"
)

// about is what all items of a kind have in common.
type about struct {
	severity Severity
	// title is a format with as many names as the kind has.
	title string
}

func (a about) titled(names ...string) string {
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = name
	}
	return fmt.Sprintf(a.title, values...)
}

// kinds are the words of the kinds: the only place with titles, which are also the summaries of the alerts.
var kinds = map[Kind]about{
	ControllerAbsent:      {Warning, "No Kamino process works: nothing is captured or rolled back, and reserved nodes stay reserved."},
	NodeLeft:              {Warning, "Node %s is reserved, and no running capture releases it."},
	Leftover:              {Warning, "An ended capture left %s."},
	CaptureFailed:         {Warning, "A capture of pool %s failed: %s."},
	TrialFailed:           {Warning, "A new image version of pool %s failed its trial."},
	CaptureWaits:          {Warning, "A capture of pool %s waits for you: %s."},
	DonorHeldLong:         {Critical, "A donor of pool %s has been out of service for too long."},
	AwaitingPromotion:     {Info, "An image version of pool %s waits for approval."},
	PolicyStalled:         {Warning, "Policy %s is stalled%s: %s."},
	PolicyDegraded:        {Warning, "Policy %s is degraded%s: %s."},
	CurrentVersionMissing: {Critical, "The recipe of pool %s names a version that does not exist."},
	VersionQuarantined:    {Critical, "The recipe of pool %s names a quarantined version."},
	PoolRolledBack:        {Warning, "Pool %s rolled back automatically."},
	PoolRollingBack:       {Warning, "Pool %s is rolling back."},
	NodesDoNotJoin:        {Critical, "Nodes of pool %s do not join, and the pool keeps the image version."},
	PatchesNotChecked:     {Warning, "Nodes of pool %s cannot check for patches: %s."},
	PatchesQuarantined:    {Warning, "The pending patches of pool %s failed on a pioneer."},
	ManyImages:            {Warning, "The nodes of pool %s use %s different images."},
	CaptureRefused:        {Warning, "Captures of pool %s are refused: %s."},
	NotRebuilt:            {Warning, "Nodes of pool %s are not rebuilt."},
	ImageOld:              {Warning, "The image of pool %s is old."},
	NoCandidates:          {Info, "Pool %s had no candidate for a day, and has an old image or no image of Kamino."},
	NeverCaptured:         {Info, "Pool %s has a policy, but no image of Kamino."},
	NodesFromGenericImage: {Info, "New nodes of pool %s use a base image, although the pool has an image of Kamino."},
	NotAllowed:            {Warning, "Kamino's requests are refused: %s."},
	Throttled:             {Info, "The cloud throttles Kamino's requests."},
	CloudUnavailable:      {Warning, "The cloud fails or does not answer for pool %s."},
}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kinds))
	for kind := range kinds {
		all = append(all, kind)
	}
	return all
}
