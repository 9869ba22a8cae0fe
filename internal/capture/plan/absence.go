package plan

import "time"

// Absence is what is known about an object for which a read of the cloud was answered with NotFound. A proxy, or a cloud whose
// copies differ, gives this answer for objects that exist, so another witness must say the same.
type Absence struct {
	// List is the answer of the list that would contain the object.
	List List
	// Node of the instance; NodeGone for objects without a Node. A kubelet that reports contradicts the cloud.
	Node Node
	// Requested: Kamino itself removes the object.
	Requested bool
	// Since is the time since the first of consecutive answers; zero at the first.
	Since time.Duration
}

// List is the answer of a list.
type List string

const (
	// ListMissing: the list itself was not found, or the cloud has none. Such a list is no witness.
	ListMissing List = ""
	ListWithout List = "without" // a list without the object
	ListHas     List = "has"
)

const (
	// secondLook is the time between the first answers and the answers that are believed.
	secondLook = time.Minute
	// lastLook is the same without a list.
	lastLook = 10 * time.Minute
)

// Doubt is the reason not to believe an Absence.
type Doubt string

const (
	NoDoubt        Doubt = "" // the object is gone
	KubeletReports Doubt = "KubeletReports"
	IsListed       Doubt = "IsListed"
	IsUnlisted     Doubt = "IsUnlisted" // no list answers, and the Node exists
	NotAgain       Doubt = "NotAgain"   // the second look is to come
)

// DoubtOf returns why the object may exist. Two sources that say the same, twice, are believed. An instance that Kamino removes
// is expected to go, so once suffices. If no list answers, the Node must be gone, and stay so for ten minutes.
func DoubtOf(a Absence) Doubt {
	switch {
	case a.Node == NodeReady:
		return KubeletReports
	case a.List == ListHas:
		return IsListed
	case a.List == ListMissing && a.Node != NodeGone:
		return IsUnlisted
	case a.List == ListMissing && a.Since < lastLook, a.List == ListWithout && a.Since < secondLook && !a.Requested:
		return NotAgain
	}
	return NoDoubt
}
