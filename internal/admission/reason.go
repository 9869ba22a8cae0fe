package admission

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/selection"
)

// Reasons that are this package's own. The others are those of the packages selection, history and spread, and of the
// cloud's provider.
const (
	NodeNotFound       = "NodeNotFound"
	DonorClockOff      = "DonorClockOff"
	NotInPool          = "NotInPool"
	InstanceNotFound   = "InstanceNotFound"
	DonorChanged       = "DonorChanged"
	PoolMismatch       = "PoolMismatch"
	VersionNotToday    = "VersionNotToday"
	VersionNotNewer    = "VersionNotNewer"
	CapturedToday      = "CapturedToday"
	CaptureInFlight    = "CaptureInFlight"
	ProfileUnsupported = "ProfileUnsupported"
	RemovalUnsupported = "RemovalUnsupported"
	NoImage            = "NoImage"
	ImageNotAllowed    = "ImageNotAllowed"
	NotInstalled       = "NotInstalled"
	ForceNotAllowed    = "ForceNotAllowed"
	RemovalNotAllowed  = "RemovalNotAllowed"
	UnmanagedPods      = "UnmanagedPods"
	ProtectedPods      = "ProtectedPods"
	ClockOff           = "ClockOff"
	CustomDataMissing  = "CustomDataMissing"
	// CustomDataNotAllowed: nothing on the Secret that is named says that it is a copy of customData.
	CustomDataNotAllowed = "CustomDataNotAllowed"
	RulesNotFound        = "RulesNotFound"
	RulesInvalid         = "RulesInvalid"
	// LocalVolumes: the donor does not return, and data is on it alone.
	LocalVolumes = "LocalVolumes"
	// BootstrapTokenExpired: no node could join in the donor's place.
	BootstrapTokenExpired = "BootstrapTokenExpired"
	// SettingOfOtherCloud: the settings have a section of a cloud that the donor is not of.
	SettingOfOtherCloud = "SettingOfOtherCloud"
)

// aboutNode are the reasons that speak of one node: another one may do.
var aboutNode = append(selection.Reasons(), NodeNotFound, InstanceNotFound, DonorChanged, DonorClockOff,
	UnmanagedPods, ProtectedPods, LocalVolumes, history.BuiltFromQuarantined)

// AboutNode tells whether a refusal for the reason speaks of one node, so that another one of its pool may do.
func AboutNode(reason string) bool { return slices.Contains(aboutNode, reason) }

// AnotherMayDo tells whether any of the refusals speaks of one node.
func AnotherMayDo(refusals []cloud.Refusal) bool {
	return slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return AboutNode(r.Reason) })
}

// refuse is the refusal of a question that has one: what is in the way stands behind what to do.
func refuse(reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	return []cloud.Refusal{cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy)}
}
