package metrics

import (
	"maps"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/trial"
)

// OtherReason replaces a reason outside the closed sets, such as a reason that a person wrote into a status.
const OtherReason = "Other"

// set of words, for a label with closed values.
type set[T ~string] map[T]bool

func setOf[T ~string](words ...T) set[T] {
	s := make(set[T], len(words))
	for _, word := range words {
		s[word] = true
	}
	return s
}

// inFlightPhases are the phases of a running capture.
var inFlightPhases = setOf(slices.DeleteFunc(v1alpha1.Phases(), func(p v1alpha1.Phase) bool {
	return p == v1alpha1.PhaseSucceeded || p == v1alpha1.PhaseFailed
})...)

// failureReasons are the reasons of captures that fail after their begin.
var failureReasons = setOf(
	string(plan.DiskCheckFailed), string(plan.DonorGone), string(plan.RecordLost), string(plan.DrainTimeout), string(plan.DeadlineExceeded),
	string(plan.DonorNotPatched), string(plan.NothingToPatch), string(plan.Interrupted), string(plan.GeneralizeFailed), capture.CloudRefused,
	string(plan.NotProven), string(plan.OfOtherCapture), string(plan.DonorNotReady), string(plan.NewNodeNotReady), string(plan.DonorBusy),
	string(plan.QuiesceNotDone), string(plan.ImageFailed), string(plan.Quarantined), string(plan.TrialFailed), string(plan.TrialInconclusive),
	string(plan.PromotionStale), string(plan.Superseded), string(plan.RecipeTaken),
)

// refusalReasons are the reasons of the engine's preflight and of package selection; each cloud has further reasons.
var refusalReasons = setOf(
	admission.NodeNotFound, admission.NotInPool, cloud.SystemUnsupported, selection.ControlPlane, selection.BeingDeleted,
	selection.NotReady, selection.DiskPressure, selection.OnlyReadyNode, selection.OwnNode, selection.Reserved, admission.UnmanagedPods,
	selection.DoNotDisrupt, admission.EvictionBlocked, cloud.CustomDataUnusable, selection.TooManyUnavailable, admission.CaptureInFlight,
	admission.CapturedToday, admission.VersionOutOfOrder, admission.ClockOff, admission.DonorClockOff, history.BuiltFromQuarantined,
	admission.SettingUnsupported, bootstrapkind.ProfileUnknown, cloud.PoolNotCopyable, admission.NotAllowed,
	admission.OtherRebooter, admission.BootstrapTokenExpired, admission.NoImage, admission.NotInstalled,
	admission.RulesInvalid, v1alpha1.PolicyPatchesQuarantined, v1alpha1.PolicyPatchesNotChecked, trial.ChecksInvalid,
	imagecount.TooManyImages,
)

// Refusals are the reasons for which a capture does not begin.
type Refusals struct{ set set[string] }

// RefusalsOf are Kamino's reasons and the reasons of the clouds.
func RefusalsOf(clouds ...cloud.Description) Refusals {
	all := maps.Clone(refusalReasons)
	for _, c := range clouds {
		for _, reason := range c.ReasonNames() {
			all[reason] = true
		}
	}
	return Refusals{all}
}

// choiceReasons are the reasons for which a policy skips a node that a user could still capture.
var choiceReasons = setOf(
	selection.Ignored, selection.Unschedulable, selection.RebootPending, selection.PatchFailed, selection.NotPatched,
	selection.PatchTimeInvalid, selection.NoNewPatch, selection.SuspectPatch, selection.NotRebootedSincePatch, selection.ReadyTooShort,
	selection.RefusedByExpression, v1alpha1.PolicyExpressionInvalid,
)
