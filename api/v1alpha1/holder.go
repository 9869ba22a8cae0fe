package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// HolderKind says what it is that holds a Node.
type HolderKind string

const (
	// HolderPrototype is a capture: name and UID are its Prototype's.
	HolderPrototype HolderKind = "Prototype"
	// HolderReplacement rebuilds the nodes of a pool from the version that its recipe names. It has no object: see
	// ReplacementHolder.
	HolderReplacement HolderKind = "Replacement"
)

// Holder is who holds a Node. All who take nodes out of service share one lock, the ReservationAnnotation.
type Holder struct {
	// Kind is empty in what versions before there were kinds have written: see Is.
	Kind HolderKind `json:"kind,omitempty"`
	Name string     `json:"name"`
	UID  types.UID  `json:"uid"`
}

// ReplacementHolder is who holds the nodes of a pool that are rebuilt from a version. It is the same for whoever rebuilds
// them, so that a second run goes on with the nodes of the first, and with no others. The pool is given by its name and
// by its ID, in which upper case does not count.
func ReplacementHolder(pool, poolID, version string) Holder {
	sum := sha256.Sum256([]byte(strings.ToLower(poolID) + "\n" + version))
	return Holder{Kind: HolderReplacement, Name: pool + "-" + version, UID: types.UID(hex.EncodeToString(sum[:16]))}
}

// anonymous is the name and the UID of every replacement by a version of Kamino that gave them no identity.
const anonymous = "kamino-rollback"

// Anonymous tells that it is a replacement by a version of Kamino that gave them no identity: nobody can tell which one.
func (h Holder) Anonymous() bool { return h.kind() == HolderReplacement && h.UID == anonymous }

// kind is the holder's kind also where none was written.
func (h Holder) kind() HolderKind {
	switch {
	case h.Kind != "":
		return h.Kind
	case h.UID == anonymous:
		return HolderReplacement
	}
	return HolderPrototype
}

// Is tells whether the holder is of that kind.
func (h Holder) Is(kind HolderKind) bool { return h.kind() == kind }

// Known tells whether this version of Kamino knows the holder's kind. What another one holds is its own to give back.
func (h Holder) Known() bool { return h.Is(HolderPrototype) || h.Is(HolderReplacement) }

// Same tells whether it is the same holder.
func (h Holder) Same(other Holder) bool { return h.UID == other.UID && h.kind() == other.kind() }

// String reads "prototype pool1-2026.03.14" or "replacement pool1-2026.03.14", and says it if nobody here knows the kind.
func (h Holder) String() string {
	if !h.Known() {
		return h.Brief() + ", a kind of holder that this version of Kamino does not know"
	}
	return h.Brief()
}

// Brief reads "prototype pool1-2026.03.14" whatever the kind is.
func (h Holder) Brief() string {
	if h.Anonymous() {
		return "a replacement of nodes"
	}
	return strings.ToLower(string(h.kind())) + " " + h.Name
}
