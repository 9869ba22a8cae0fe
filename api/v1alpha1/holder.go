package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// HolderKind is the kind of a Node's holder, or of the object that asks for a NodeOrder.
// +kubebuilder:validation:Enum=Prototype;Replacement;PrototypePolicy
type HolderKind string

const (
	// HolderPrototype is a capture: name and UID are its Prototype's.
	HolderPrototype HolderKind = "Prototype"
	// HolderReplacement rebuilds the nodes of a pool with the version in the pool's recipe. The kind has no object: see
	// ReplacementHolder.
	HolderReplacement HolderKind = "Replacement"
	// HolderPolicy asks a node for its pending patches. A policy never holds a Node.
	HolderPolicy HolderKind = "PrototypePolicy"
)

// Holder is the holder of a Node. All holders share one lock, the ReservationAnnotation.
type Holder struct {
	// Kind is Prototype if empty.
	// +optional
	Kind HolderKind `json:"kind,omitempty"`
	// Name of the holder.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID distinguishes the holder from another holder of the same name.
	UID types.UID `json:"uid"`
}

// ReplacementHolder is the holder of a pool's nodes that are rebuilt from a version. All processes compute the same holder,
// so a second run continues with the nodes of the first run only. Upper case in the pool's name and ID is ignored.
func ReplacementHolder(pool, poolID, version string) Holder {
	sum := sha256.Sum256([]byte(strings.ToLower(poolID) + "\n" + version))
	return Holder{Kind: HolderReplacement, Name: pool + "-" + version, UID: types.UID(hex.EncodeToString(sum[:16]))}
}

// kind returns the holder's kind; HolderPrototype if empty.
func (h Holder) kind() HolderKind {
	return cmp.Or(h.Kind, HolderPrototype)
}

// Is reports whether the holder is of this kind.
func (h Holder) Is(kind HolderKind) bool { return h.kind() == kind }

// Known reports whether this version of Kamino knows the holder's kind. Only the owner of an unknown kind releases the
// node.
func (h Holder) Known() bool { return h.Is(HolderPrototype) || h.Is(HolderReplacement) }

// Same reports whether both are the same holder.
func (h Holder) Same(other Holder) bool { return h.UID == other.UID && h.kind() == other.kind() }

// String reads "prototype pool1-2026.03.14" or "replacement pool1-2026.03.14", and marks an unknown kind.
func (h Holder) String() string {
	if !h.Known() {
		return h.Brief() + ", a kind of holder unknown to this version of Kamino"
	}
	return h.Brief()
}

// Brief reads "prototype pool1-2026.03.14" for all kinds.
func (h Holder) Brief() string {
	return strings.ToLower(string(h.kind())) + " " + h.Name
}
