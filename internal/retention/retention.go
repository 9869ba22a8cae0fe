// Package retention decides which versions of a pool are kept, and why. It deletes nothing and looks at
// nothing: the versions and what the recipe names are given to it.
package retention

import (
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
)

// Reason why a version is kept or retired.
type Reason string

// The reasons, strongest first.
const (
	// Current: the pool's recipe names it.
	Current Reason = "Current"
	// Prior: a rollback would go to it.
	Prior Reason = "Prior"
	// Newer: it is newer than the current one; nobody has decided about it yet.
	Newer Reason = "Newer"
	// InWork: the cloud still makes it or already deletes it.
	InWork Reason = "InWork"
	// Recent: it is among the versions to keep.
	Recent Reason = "Recent"
	// InUse: instances were built from it. A cloud that rebuilds one of them as it is (Azure's reimage) needs
	// the image that the instance's own model names; and a quarantine stands on the version, so that with the
	// version it would be forgotten which nodes run a bad one.
	InUse Reason = "InUse"
	// Unacknowledged: the pool went back from it by itself, and no person has acknowledged that. The tags that stop the pool's
	// captures stand on the version, and with it they would be gone.
	Unacknowledged Reason = "Unacknowledged"
	// Unproven: a capture made it, by its tags, and the proof that every such version carries is not among them. Nothing
	// goes to it, and what was lost may be found again: a person retires it.
	Unproven Reason = "Unproven"
	// Unknown: the recipe names none of the versions, so none can be told from the one that a rollback needs.
	Unknown Reason = "Unknown"
	// Surplus: enough newer versions are kept. Only such a version is retired.
	Surplus Reason = "Surplus"
)

// Verdict on one version.
type Verdict struct {
	Version string `json:"version"`
	Keep    bool   `json:"keep"`
	Reason  Reason `json:"reason"`
}

// Decide gives a verdict on each image, newest first. current is the version that the recipe names; keep
// counts usable versions, the current one included, and is taken as 2 if it is less: the current and the
// prior usable version always stay. inUse counts the instances that were built from each version; nil if
// nobody knows, and then none is kept for their sake.
func Decide(images []cloud.Image, current string, keep int, inUse map[string]int) []Verdict {
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b cloud.Image) int { return imageversion.Compare(b.Version, a.Version) })
	verdicts := make([]Verdict, 0, len(images))
	kept := 0 // usable versions up to and including the current one, newest first
	for _, image := range images {
		reason := reasonFor(image, current, kept, max(keep, 2))
		if reason == Current || reason == Prior || reason == Recent {
			kept++
		}
		if reason == Surplus && inUse[image.Version] > 0 {
			reason = InUse
		}
		if reason == Surplus && unacknowledged(image) {
			reason = Unacknowledged
		}
		verdicts = append(verdicts, Verdict{image.Version, reason != Surplus, reason})
	}
	return verdicts
}

func reasonFor(image cloud.Image, current string, kept, keep int) Reason {
	order := imageversion.Compare(image.Version, current)
	switch {
	case current == "":
		return Unknown
	case order == 0:
		return Current
	case image.State == cloud.Pending, image.State == cloud.Deleting:
		return InWork
	case order > 0:
		return Newer
	case kept == 0:
		return Unknown // the current version is not in the list: somebody else's hand was in it
	case image.State == cloud.Complete && image.Tags[cloud.TagQuarantined] == "" && LostProof(image.Tags[cloud.TagPrototype], image.Tags[cloud.TagProof]):
		return Unproven
	case !usable(image):
		return Surplus
	case kept == 1:
		return Prior
	case kept < keep:
		return Recent
	default:
		return Surplus
	}
}

// CountInUse counts the instances by the version that they were built from, for Decide.
func CountInUse(instances []cloud.Instance) map[string]int {
	inUse := map[string]int{}
	for _, instance := range instances {
		if instance.BuiltFrom != "" {
			inUse[instance.BuiltFrom]++
		}
	}
	return inUse
}

// usable tells whether a rollback could go to the image.
func usable(image cloud.Image) bool {
	return image.State == cloud.Complete && image.Tags[cloud.TagQuarantined] == "" && image.Tags[cloud.TagSuspect] == ""
}

// WentBack reads the tag of a version that the pool went back from by itself: when it did, and when a person has acknowledged it.
// Either is zero if the tag does not tell it.
func WentBack(tag string) (at, acknowledged time.Time) {
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
	at, acknowledged := WentBack(image.Tags[cloud.TagWentBack])
	return acknowledged.IsZero() && (!at.IsZero() || image.Tags[cloud.TagSuspect] != "")
}

// Proven tells whether a version's tag is a proof, as a capture writes it: profile, its version, digest.
func Proven(tag string) bool { return strings.Count(tag, "/") >= 2 }

// LostProof tells of a version that a capture made, by the Prototype among its tags, and that does not carry the proof
// which every such version carries. One that no capture made was there before, and the pool may have run it.
func LostProof(prototype, proof string) bool { return prototype != "" && !Proven(proof) }

// Retired lists the versions that a set of verdicts retires, oldest first.
func Retired(verdicts []Verdict) []string {
	var versions []string
	for _, v := range slices.Backward(verdicts) {
		if !v.Keep {
			versions = append(versions, v.Version)
		}
	}
	return versions
}
