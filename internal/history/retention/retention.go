// Package retention decides which versions of a pool are kept, and why. The package is pure and deletes nothing.
package retention

import (
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
)

// Reason is why a version is kept or retired.
type Reason string

// The reasons, strongest first.
const (
	// Current: the pool's recipe names the version.
	Current Reason = "Current"
	// OtherCluster: another cluster in the account made the version, and Kamino neither counts, uses nor deletes the version.
	OtherCluster Reason = "OtherCluster"
	// Prior: a rollback would return to the version.
	Prior Reason = "Prior"
	// Newer: the version is newer than the current version, and awaits a decision.
	Newer Reason = "Newer"
	// InProgress: the cloud is still creating or already deleting the version.
	InProgress Reason = "InProgress"
	// Recent: the version is among the newest versions to keep.
	Recent Reason = "Recent"
	// InUse: instances were built from the version. A cloud that reimages an instance (Azure) needs the image of its model.
	// Without the quarantine tag of the version, the nodes of a bad version would be unknown.
	InUse Reason = "InUse"
	// Unacknowledged: the pool was rolled back automatically from the version, and no person has acknowledged the
	// rollback. The tags on the version stop captures of the pool; deleting the version would remove the tags.
	Unacknowledged Reason = "Unacknowledged"
	// Unproven: a capture made the version, by its tags, but the tag with the proof is missing. The pool never uses
	// such a version. The proof may be found again, so only a person retires the version.
	Unproven Reason = "Unproven"
	// Frozen: the version descends from a quarantined version, or is the quarantined ancestor of such a version. A person decides.
	Frozen Reason = "Frozen"
	// Unknown: the recipe names none of the versions, so the version for a rollback is unknown.
	Unknown Reason = "Unknown"
	// Unmarked: nothing proves that this cluster made the version, so only a person retires the version. The version has no tag
	// with the cluster's ID, and its Prototype is unknown.
	Unmarked Reason = "Unmarked"
	// Surplus: enough newer versions are kept. Only surplus versions are retired.
	Surplus Reason = "Surplus"
)

// Decision is the decision about one version.
type Decision struct {
	Version string `json:"version"`
	Keep    bool   `json:"keep"`
	Reason  Reason `json:"reason"`
}

// Decide returns a verdict for each image, newest first. keep is the number of usable versions to keep, at least 2. inUse has the
// instances by version; nil keeps nothing as InUse. isPrototype is that of cloud.Origin.MayDelete.
func Decide(images []cloud.Image, current string, keep int, inUse map[string]int, isPrototype func(uid string) bool) []Decision {
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b cloud.Image) int { return imageversion.Compare(b.Version, a.Version) })
	verdicts := make([]Decision, 0, len(images))
	frozen, ancestors := Descended(images), map[string]bool{}
	for _, by := range frozen {
		ancestors[by] = true
	}
	kept := 0 // usable versions so far, beginning with the current version
	for _, image := range images {
		reason := reasonFor(image, current, kept, max(keep, 2), frozen[image.Version] != "")
		if reason == Current || reason == Prior || reason == Recent {
			kept++
		}
		if reason == Surplus && ancestors[image.Version] {
			reason = Frozen
		}
		if reason == Surplus && inUse[image.Version] > 0 {
			reason = InUse
		}
		if reason == Surplus && unacknowledged(image) {
			reason = Unacknowledged
		}
		if reason == Surplus && !image.Origin.MayDelete(image.Tags, isPrototype) {
			reason = Unmarked
		}
		verdicts = append(verdicts, Decision{image.Version, reason != Surplus, reason})
	}
	return verdicts
}

func reasonFor(image cloud.Image, current string, kept, keep int, frozen bool) Reason {
	order := imageversion.Compare(image.Version, current)
	switch {
	case current == "":
		return Unknown
	case order == 0:
		return Current
	case image.Origin == cloud.Foreign:
		return OtherCluster
	case image.State == cloud.Pending, image.State == cloud.Deleting:
		return InProgress
	case order > 0:
		return Newer
	case kept == 0:
		return Unknown // the current version is not in the list: another client changed the recipe or the list
	case image.State == cloud.Complete && image.Tags[cloud.TagQuarantined] == "" && LostProof(image.Tags[cloud.TagPrototype], image.Tags[cloud.TagProof]):
		return Unproven
	case !usable(image):
		return Surplus
	case frozen:
		return Frozen
	case kept == 1:
		return Prior
	case kept < keep:
		return Recent
	default:
		return Surplus
	}
}

// CountInUse counts the instances by version, for Decide.
func CountInUse(instances []cloud.Instance) map[string]int {
	inUse := map[string]int{}
	for _, instance := range instances {
		if instance.BuiltFrom != "" {
			inUse[instance.BuiltFrom]++
		}
	}
	return inUse
}

// usable reports whether a rollback can use the image.
func usable(image cloud.Image) bool {
	return image.State == cloud.Complete && image.Tags[cloud.TagQuarantined] == "" && image.Tags[cloud.TagSuspect] == ""
}

// RolledBackAt parses the tag of an automatic rollback: the time of the rollback and the time of the acknowledgement. A
// missing time is zero.
func RolledBackAt(tag string) (at, acknowledged time.Time) {
	first, second, _ := strings.Cut(tag, " ")
	return moment(first), moment(second)
}

func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

func unacknowledged(image cloud.Image) bool {
	at, acknowledged := RolledBackAt(image.Tags[cloud.TagRolledBackAt])
	return acknowledged.IsZero() && (!at.IsZero() || image.Tags[cloud.TagSuspect] != "")
}

// Proven reports whether the tag is a proof as a capture writes it: profile, profile version, digest.
func Proven(tag string) bool { return strings.Count(tag, "/") >= 2 }

// LostProof reports whether a capture made the version, by its Prototype tag, but the proof is missing. A version
// without a Prototype tag was there before Kamino, and the pool may have used it.
func LostProof(prototype, proof string) bool { return prototype != "" && !Proven(proof) }

// Retired returns the versions that the verdicts retire, oldest first.
func Retired(verdicts []Decision) []string {
	var versions []string
	for _, v := range slices.Backward(verdicts) {
		if !v.Keep {
			versions = append(versions, v.Version)
		}
	}
	return versions
}
