package admission

import (
	"fmt"
	"slices"

	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/selection"
)

// Reasons that only this package gives. Packages selection, history and imagecount and the cloud's provider give the other
// reasons.
const (
	NodeNotFound    = "NodeNotFound"
	DonorClockOff   = "DonorClockOff"
	NotInPool       = "NotInPool"
	CapturedToday   = "CapturedToday"
	CaptureInFlight = "CaptureInFlight"
	NoImage         = "NoImage"
	// NotAllowed: this process was not given a right that the settings need.
	NotAllowed = "NotAllowed"
	// SettingUnsupported: a setting does not fit the cloud, the profile or another setting.
	SettingUnsupported = "SettingUnsupported"
	// VersionOutOfOrder: the version is of another day, or the recipe names a later one.
	VersionOutOfOrder = "VersionOutOfOrder"
	NotInstalled      = "NotInstalled"
	UnmanagedPods     = "UnmanagedPods"
	EvictionBlocked   = "EvictionBlocked"
	ClockOff          = "ClockOff"
	RulesInvalid      = "RulesInvalid"
	// OtherRebooter: another tool reboots the node of a pioneer.
	OtherRebooter = "OtherRebooter"
	// BootstrapTokenExpired: no new node of the pool, and no workshop, could join.
	BootstrapTokenExpired = "BootstrapTokenExpired"
)

// aboutNode are reasons about one node: another node may be suitable.
var aboutNode = append(selection.Reasons(), NodeNotFound, DonorClockOff,
	UnmanagedPods, selection.DoNotDisrupt, EvictionBlocked, OtherRebooter, history.BuiltFromQuarantined)

// AboutNode reports whether a reason is about one node, so that another node of the pool may be suitable.
func AboutNode(reason string) bool { return slices.Contains(aboutNode, reason) }

// AnotherMayDo reports whether a refusal is about one node.
func AnotherMayDo(refusals []cloud.Refusal) bool {
	return slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return AboutNode(r.Reason) })
}

// refuse returns one refusal with the remedy and the formatted obstacle.
func refuse(reason, remedy, obstacle string, args ...any) []cloud.Refusal {
	return []cloud.Refusal{cloud.Refuse(reason, fmt.Sprintf(obstacle, args...), remedy)}
}
