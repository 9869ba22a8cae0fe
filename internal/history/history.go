// Package history decides the use of each version in a pool: current, prior, to be retired, never to be used. It also
// decides about rollback, quarantine, release and retirement, and refuses what is not safe. The package is pure.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/history/retention"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// Use is the use of a version in its pool. A version has the first use that applies.
type Use string

const (
	// Current: the recipe names the version.
	Current Use = "current"
	// InProgress: the cloud is still creating or already deleting the version.
	InProgress Use = "in progress"
	// Failed: the cloud could not create the version.
	Failed Use = "failed"
	// OtherCluster: another cluster in the account made the version, and the recipe does not name it.
	OtherCluster Use = "of another cluster"
	// Quarantined: the version is never used again, not even by a rollback.
	Quarantined Use = "quarantined"
	// Newer: the version is newer than the current version.
	Newer Use = "newer"
	// Prior: a rollback would return to the version.
	Prior Use = "prior"
	// Older: the version is usable but not in use; also every usable version if the recipe names an image from
	// elsewhere.
	Older Use = "older"
)

// Member is an instance of the pool.
type Member struct {
	// Name is the Node's name, or the instance ID without a Node.
	Name string
	// BuiltFrom is the version that the instance was built from; empty for an image from elsewhere.
	BuiltFrom string
}

// Facts are the inputs of a history.
type Facts struct {
	Pool   cloud.Pool
	Images []cloud.Image
	// Members are the pool's instances. Counted is false if the cloud could not list the instances.
	Members []Member
	Counted bool
	// Joins are the joins of the pool's nodes, if Counted, and Cohorts compares the nodes of the version in the recipe with others.
	Joins   []joinhealth.Join
	Cohorts string
	// Prototypes are all Prototypes of the pool.
	Prototypes []v1alpha1.Prototype
	// Keep is the number of versions that the next capture keeps; zero: the setting of the newest Prototype.
	Keep int
}

// History is the history of a pool's versions.
type History struct {
	Pool   string       `json:"pool"`
	PoolID cloud.PoolID `json:"poolID"`
	// Recipe builds the pool's next node.
	Recipe cloud.Recipe `json:"recipe"`
	// Prior is the goal of a rollback; empty if there is none.
	Prior string `json:"prior,omitempty"`
	// Cohorts compares the nodes of the version in the recipe with the pool's other nodes; empty with fewer than three on a side.
	Cohorts string `json:"cohorts,omitempty"`
	// Keep is the number of usable versions to keep in the verdicts.
	Keep int `json:"keep"`
	// Gone refuses a recipe with a missing version; nil if the version exists.
	Gone *cloud.Refusal `json:"currentVersionMissing,omitempty"`
	// Versions are newest first.
	Versions []Version `json:"versions"`
	// Counted is true if the nodes of each version are known.
	Counted bool `json:"counted"`
	// Others are the nodes built from other images: a generic image, or a deleted version.
	Others []string `json:"otherNodes,omitempty"`
	// Warm describes the pool's warm pool: cloud.WarmPool.Line; empty without one.
	Warm string `json:"warmPool,omitempty"`
	// Captures are the running captures that may still change the recipe, by name.
	Captures []Capture `json:"captures,omitempty"`
	// AutoRollbacks are the automatic rollbacks, latest first.
	AutoRollbacks []AutoRollback `json:"automaticRollbacks,omitempty"`
}

// Version is one version of the pool's image.
type Version struct {
	Version string      `json:"version"`
	Use     Use         `json:"use"`
	State   cloud.State `json:"state"`
	Percent int32       `json:"percent"`
	ID      string      `json:"id,omitempty"`
	// Donor is the node whose disk was captured. Lineage is the version that the donor was built from, if known.
	Donor   string `json:"donor,omitempty"`
	Lineage string `json:"lineage,omitempty"`
	// OS, Kernel, Kubelet, Runtime and PatchedAt are the donor's at the capture; empty if unknown.
	OS        string    `json:"os,omitempty"`
	Kernel    string    `json:"kernel,omitempty"`
	Kubelet   string    `json:"kubelet,omitempty"`
	Runtime   string    `json:"runtime,omitempty"`
	PatchedAt time.Time `json:"patchedAt,omitzero"`
	// Contents is the digest of the stored list of packages and images; empty without a list.
	Contents string `json:"contentsDigest,omitempty"`
	// BuiltAt is the capture time, else the creation time in the cloud.
	BuiltAt   time.Time `json:"builtAt,omitzero"`
	Prototype string    `json:"prototype,omitempty"`
	// OtherCluster is true if another cluster in the account made the version.
	OtherCluster bool `json:"otherCluster,omitempty"`
	// SavedRecipe names the Secret with the lost parts of the recipe, from the status of the Prototype.
	SavedRecipe string `json:"savedRecipe,omitempty"`
	Proof       string `json:"proof,omitempty"`
	SizeGB      int32  `json:"sizeGB,omitempty"`
	// Quarantined is the reason of the quarantine. RolledBackTo is the goal of the rollback from the version.
	Quarantined  string `json:"quarantined,omitempty"`
	RolledBackTo string `json:"rolledBackTo,omitempty"`
	// Frozen is the quarantined version that the version descends from, until a person clears or quarantines the version.
	Frozen string `json:"quarantinedLineage,omitempty"`
	// Cleared are the quarantined versions in spite of which a person cleared the version.
	Cleared string `json:"cleared,omitempty"`
	// Launches is cloud.Image.Launches.
	Launches cloud.Launches `json:"launches,omitempty"`
	// Trial is the result and time of the version's trial; empty without a trial.
	Trial string `json:"trial,omitempty"`
	// Joins are the numbers of the version's joins, without removed nodes; nil if unknown.
	Joins *Joins `json:"joins,omitempty"`
	// Suspect is the reason of an automatic rollback from the version, until a person acknowledges the rollback.
	Suspect string `json:"suspect,omitempty"`
	Error   string `json:"error,omitempty"`
	// Nodes were built from the version, by name; nil if unknown.
	Nodes []string `json:"nodes"`
	// Keep is true if the next capture keeps the version. Reason and Why explain the verdict.
	Keep   bool             `json:"keep"`
	Reason retention.Reason `json:"reason"`
	Why    string           `json:"message"`
}

// Joins are the numbers of a version's joins.
type Joins struct {
	// Judged is the number of joined and failed nodes.
	Judged  int `json:"judged"`
	Joined  int `json:"joined"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// MedianSeconds is the median time from the start of an instance until its node was Ready; zero without such a
	// node.
	MedianSeconds int64 `json:"medianSeconds,omitempty"`
}

// joinsOf counts the joins of a version; nil without joins.
func joinsOf(all []joinhealth.Join, version string) *Joins {
	t := joinhealth.Count(all, version)
	if t == (joinhealth.Tally{}) {
		return nil
	}
	return &Joins{
		Judged: t.Joined + t.Failed, Joined: t.Joined, Failed: t.Failed, Waiting: t.Waiting, MedianSeconds: int64(t.Median.Round(time.Second).Seconds()),
	}
}

// Capture is a running capture.
type Capture struct {
	Prototype string `json:"prototype"`
	Version   string `json:"version"`
	Donor     string `json:"donor"`
	// Progress is what the capture does or waits for; empty before its first step.
	Progress string `json:"progress,omitempty"`
	// AwaitsPromotion is true if the complete version awaits promotion by a person. The capture itself does not change the
	// recipe.
	AwaitsPromotion bool `json:"awaitsPromotion,omitempty"`
	// HeldBack is why an awaited promotion waits for other pools, and not for a person.
	HeldBack string `json:"heldBack,omitempty"`
	// HandOver is the change that the person makes with another tool that owns the recipe.
	HandOver string `json:"handOver,omitempty"`
	// HasTrial is true during the trial of the version. A trial in the pool changes the recipe temporarily.
	HasTrial bool `json:"hasTrial,omitempty"`
}

// Of returns the history of a pool.
func Of(f Facts) History {
	h := History{
		Pool: f.Pool.Name, PoolID: f.Pool.ID, Recipe: f.Pool.Recipe, Keep: retentionOf(f), Cohorts: f.Cohorts,
		Versions: []Version{}, Counted: f.Counted, Captures: inFlight(f.Prototypes),
		Gone: Gone(f.Pool, f.Images),
	}
	if f.Pool.Warm != nil {
		h.Warm = f.Pool.Warm.Line(f.Pool.Recipe)
	}
	for _, r := range AutoRollbacks(f.Images) {
		h.AutoRollbacks = append(h.AutoRollbacks, r.on(h.Recipe))
	}
	images := map[string]cloud.Image{}
	for _, image := range f.Images {
		images[image.Version] = image
	}
	nodes, others := count(f, images)
	h.Others = others
	frozen := retention.Descended(f.Images)
	for _, verdict := range retention.Decide(f.Images, h.Recipe.Version, h.Keep, inUse(f), isPrototype(f.Prototypes)) {
		v := version(images[verdict.Version])
		v.Frozen = frozen[v.Version]
		v.Use, v.Keep, v.Reason = useOf(v, verdict.Reason, h.Recipe.Version), verdict.Keep, verdict.Reason
		v.Why = h.why(v)
		v.SavedRecipe = savedFor(v.Version, f.Prototypes)
		if f.Counted {
			v.Nodes = append([]string{}, nodes[v.Version]...)
			v.Joins = joinsOf(f.Joins, v.Version)
		}
		h.Versions = append(h.Versions, v)
	}
	h.Prior = h.prior()
	if prior := h.Find(h.Prior); prior != nil && prior.Use == Older { // the current version is missing, so that package retention found no prior version
		prior.Use, prior.Why = Prior, whyPrior
	}
	return h
}

// isPrototype returns the proof for versions without a cluster's tag.
func isPrototype(prototypes []v1alpha1.Prototype) func(uid string) bool {
	return func(uid string) bool {
		return slices.ContainsFunc(prototypes, func(p v1alpha1.Prototype) bool { return string(p.UID) == uid })
	}
}

// savedFor returns the Secret named by the version's Prototype.
func savedFor(version string, prototypes []v1alpha1.Prototype) string {
	for _, p := range prototypes {
		if same(p.Spec.Version, version) && p.Status.SavedRecipe != "" {
			return p.Status.SavedRecipe
		}
	}
	return ""
}

// inUse counts the members by version.
func inUse(f Facts) map[string]int {
	count := map[string]int{}
	for _, m := range f.Members {
		count[m.BuiltFrom]++
	}
	return count
}

// retentionOf returns the retention of the next capture: Facts.Keep, else the setting of the newest Prototype, and at least 2.
func retentionOf(f Facts) int {
	if f.Keep > 0 {
		return max(f.Keep, 2)
	}
	settings := v1alpha1.Settings{}
	if len(f.Prototypes) > 0 {
		newest := slices.MaxFunc(f.Prototypes, func(a, b v1alpha1.Prototype) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		settings = newest.Spec.Settings
	}
	return max(int(settings.Defaulted().Keep), 2)
}

// inFlight returns the captures that can still promote. A failed or deleted capture only releases its donor.
func inFlight(prototypes []v1alpha1.Prototype) []Capture {
	var captures []Capture
	for _, p := range prototypes {
		ended := p.Status.Terminal()
		if ended || p.Status.Failure != nil || p.DeletionTimestamp != nil {
			continue
		}
		held := ""
		if p.Status.HeldBack() {
			held = p.Status.Progress
		}
		captures = append(captures, Capture{HeldBack: held, Prototype: p.Name, Progress: p.Status.Progress, Version: p.Spec.Version, Donor: p.Spec.Donor.NodeName,
			AwaitsPromotion: p.Status.Phase == v1alpha1.PhaseAwaitingPromotion, HandOver: p.Status.HandsOver(),
			HasTrial: p.Status.Phase == v1alpha1.PhaseRunningTrial})
	}
	slices.SortFunc(captures, func(a, b Capture) int { return cmp.Compare(a.Prototype, b.Prototype) })
	return captures
}

// count groups the members by version.
func count(f Facts, images map[string]cloud.Image) (nodes map[string][]string, others []string) {
	nodes = map[string][]string{}
	for _, m := range f.Members {
		if _, known := images[m.BuiltFrom]; known {
			nodes[m.BuiltFrom] = append(nodes[m.BuiltFrom], m.Name)
		} else {
			others = append(others, m.Name)
		}
	}
	for _, names := range nodes {
		slices.Sort(names)
	}
	slices.Sort(others)
	return nodes, others
}

func version(image cloud.Image) Version {
	patched, err := time.Parse(time.RFC3339, image.Tags[cloud.TagPatchedAt])
	if err != nil {
		patched = time.Time{}
	}
	return Version{
		OS: image.Tags[cloud.TagOS], Kernel: image.Tags[cloud.TagKernel], Kubelet: image.Tags[cloud.TagKubelet],
		Runtime: image.Tags[cloud.TagRuntime], PatchedAt: patched, Contents: image.Tags[cloud.TagContents],
		Version: image.Version, State: image.State, Percent: image.Percent, ID: image.ID, SizeGB: image.SizeGB, Error: image.Error,
		Donor: image.Tags[cloud.TagBuiltFrom], Lineage: image.Tags[cloud.TagLineage], BuiltAt: BuiltAt(image),
		Prototype: image.Tags[cloud.TagPrototype], OtherCluster: image.Origin == cloud.Foreign, Proof: image.Tags[cloud.TagProof],
		Quarantined: image.Tags[cloud.TagQuarantined], RolledBackTo: image.Tags[cloud.TagRolledBackTo],
		Trial: image.Tags[cloud.TagTrial], Suspect: image.Tags[cloud.TagSuspect],
		Cleared: image.Tags[cloud.TagCleared], Launches: image.Launches,
	}
}

func useOf(v Version, reason retention.Reason, current string) Use {
	switch {
	case reason == retention.Current:
		return Current
	case reason == retention.OtherCluster:
		return OtherCluster
	case v.State == cloud.Failed:
		return Failed
	case v.State != cloud.Complete:
		return InProgress
	case v.Quarantined != "":
		return Quarantined
	case current != "" && imageversion.Compare(v.Version, current) > 0:
		return Newer
	case reason == retention.Prior:
		return Prior
	default:
		return Older
	}
}

// usable reports whether the recipe may name the version.
func (v Version) usable() bool {
	return v.State == cloud.Complete && v.Quarantined == "" && v.Suspect == "" && !v.lostProof() && v.Use != OtherCluster &&
		v.Frozen == "" && v.Launches != cloud.LaunchesForbidden
}

// prior returns the newest usable version before the recipe's version, even if the recipe's version is missing.
func (h History) prior() string {
	for _, v := range h.Versions {
		if h.Recipe.Version != "" && imageversion.Compare(v.Version, h.Recipe.Version) < 0 && v.usable() {
			return v.Version
		}
	}
	return ""
}

// Find returns the version of the name, or nil. Names compare as numbers: 2026.1.9 equals 2026.01.09.
func (h History) Find(name string) *Version {
	i := slices.IndexFunc(h.Versions, func(v Version) bool { return v.Version == name || same(v.Version, name) })
	if i < 0 {
		return nil
	}
	return &h.Versions[i]
}

// same compares two versions by number. An empty name equals no version.
func same(a, b string) bool { return a != "" && b != "" && imageversion.Compare(a, b) == 0 }

// Bad returns the quarantined versions in use by nodes or by the recipe.
func (h History) Bad() []Version {
	var bad []Version
	for _, v := range h.Versions {
		if v.Quarantined != "" && (len(v.Nodes) > 0 || v.Use == Current) {
			bad = append(bad, v)
		}
	}
	return bad
}

const whyPrior = "rollback target"

// whyOrigin explains what stays for lack of a proof that this cluster made the version.
var whyOrigin = map[retention.Reason]string{
	retention.OtherCluster: "made by another cluster in the account: Kamino leaves the version alone",
	retention.Unmarked:     "no tag says that this cluster made the version: delete the version with `kamino delete-version`",
}

func whyCurrent(v Version) string {
	if v.Quarantined != "" {
		return "named by the recipe, although quarantined"
	}
	return "named by the recipe"
}

func whyInProgress(v Version) string {
	if v.State == cloud.Deleting {
		return "the cloud is deleting the version"
	}
	return "the cloud is still creating the version"
}

// why explains the verdict in words.
func (h History) why(v Version) string {
	switch v.Reason {
	case retention.Current:
		return whyCurrent(v)
	case retention.Prior:
		return whyPrior
	case retention.Newer:
		return "newer than the version in the recipe"
	case retention.InProgress:
		return whyInProgress(v)
	case retention.OtherCluster, retention.Unmarked:
		return whyOrigin[v.Reason]
	case retention.Recent:
		return fmt.Sprintf("among the %d versions to keep", h.Keep)
	case retention.InUse:
		return h.inUse(v)
	case retention.Unacknowledged:
		return fmt.Sprintf("the pool rolled back automatically, and captures stay stopped until you acknowledge the rollback: `kamino acknowledge %s`", h.Pool)
	case retention.Frozen:
		if v.Frozen == "" {
			return "quarantined, and other versions descend from it: decide about these first"
		}
		return "descends from the quarantined version " + v.Frozen
	case retention.Unproven:
		return "created by a capture, but without proof: unusable; delete the version with `kamino delete-version`"
	case retention.Unknown:
		return "the recipe names no version of the pool, so the rollback target is unknown"
	case retention.Surplus:
	}
	switch {
	case v.State == cloud.Failed:
		return "the cloud failed to create the version"
	case v.Quarantined != "":
		return "quarantined"
	}
	return fmt.Sprintf("%d newer versions are kept", h.Keep)
}

// inUse explains which nodes need a surplus version.
func (h History) inUse(v Version) string {
	who := fmt.Sprintf("%d nodes were", len(v.Nodes))
	if len(v.Nodes) == 1 {
		who = "node " + v.Nodes[0] + " was"
	}
	if v.Quarantined != "" {
		return who + " built from the version, and the version marks these nodes as bad"
	}
	return who + " built from the version and need the version for rebuilds"
}

// names lists the versions for a person who named a missing version.
func (h History) names() string {
	if len(h.Versions) == 0 {
		return "the pool has no versions"
	}
	names := make([]string, len(h.Versions))
	for i, v := range h.Versions {
		names[i] = v.Version
	}
	return "the pool has " + strings.Join(names, ", ")
}
