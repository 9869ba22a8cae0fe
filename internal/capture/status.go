package capture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// report writes the observation and the decision into the status.
func report(w *pass, d plan.Decision, now time.Time) {
	s := &w.p.Status
	s.ObservedGeneration = w.p.Generation
	if d.Do == plan.Refuse || d.Do == plan.Fail {
		s.Failure = failure(w, d)
	}
	enterPhase(s, phaseOf(w, d), now)
	s.Progress = cmp.Or(trialProgress(w, d), lossProgress(w, d), progress(w, waitAfter(d)))
	reportDonor(w, now)
	if w.disk.comparison != "" {
		s.UnknownFiles = w.disk.comparison
	}
	reportOutrun(w, d)
	reportImage(w)
	reportRecipe(w, d)
	reportTrial(w, now)
	reportPatch(w)
	reportConditions(w, d, now)
	reportEndlessWait(w, d, now)
	reportTrialPassed(w, d, now)
	reportIgnoredReport(w, now)
	reportReversible(w, now)
}

// Reasons of condition Reversible, and of an event, before a pool's first promotion: no rollback is possible, because the
// recipe names no version.
const (
	// Restorable: `kamino restore` restores the whole recipe.
	Restorable = "Restorable"
	// PartlyRestorable: the promotion removes parts, and the cloud may not return all of them.
	PartlyRestorable = "PartlyRestorable"
)

// FirstPromotionNotice describes the loss by a pool's first promotion, and the parts that `kamino restore` can restore: with
// copied, also customData.
func FirstPromotionNotice(p *v1alpha1.Prototype, image string, copied bool) string {
	if image == "" {
		image = "its present image"
	}
	text := fmt.Sprintf("this is the first version in the recipe of pool %s: `kamino rollback` cannot restore %s", p.Spec.Pool, image)
	if !removesBootstrap(p) {
		return text + ". `kamino restore` restores the whole recipe; the bootstrap data of its nodes stays in the recipe"
	}
	text += ". `kamino restore` restores "
	if copied {
		return text + "the parts that the cloud returns, and the saved copy of customData"
	}
	return text + "only the parts that the cloud returns. Keep a copy of the pool's customData, or pass the copy with `--custom-data FILE` (settings.recipe.customDataFrom)"
}

// reportReversible reports before a pool's first promotion which command undoes the promotion.
func reportReversible(w *pass, now time.Time) {
	if w.promotion.recipe.ID != "" && w.promotion.recipe.Recipe.Version == "" && !w.facts.Refused {
		status, reason := metav1.ConditionTrue, Restorable
		if removesBootstrap(w.p) {
			status, reason = metav1.ConditionFalse, PartlyRestorable
		}
		setCondition(w.p, now, v1alpha1.ConditionReversible, status, reason,
			FirstPromotionNotice(w.p, w.promotion.recipe.Recipe.Image, w.p.Spec.Settings.Recipe.CustomDataFrom != nil))
	}
}

// ReportRejected is the reason of condition Generalized, and of an event, for a report on the NodeOrder that the pod did
// not sign.
const ReportRejected = "ReportRejected"

// reportIgnoredReport reports an ignored report on the NodeOrder. Later reports can be valid.
func reportIgnoredReport(w *pass, now time.Time) {
	if w.disk.ignoredReport != "" && w.disk.proof == nil {
		setCondition(w.p, now, v1alpha1.ConditionGeneralized, metav1.ConditionFalse, ReportRejected,
			w.disk.ignoredReport+". Check which clients can change NodeOrders")
	}
}

// waitAfter is the wait that follows an action with a lasting effect; otherwise the decision itself.
func waitAfter(d plan.Decision) plan.Decision {
	if wait := actions[d.Do].wait; wait != "" && d.Do != plan.Evict {
		return plan.Decision{Do: plan.Wait, Why: wait}
	}
	return d
}

// progress is a short description of the current step.
func progress(w *pass, d plan.Decision) string {
	switch {
	case d.Do == plan.Wait && d.Why == plan.ForImage:
		return imageProgress(w)
	case d.Do == plan.Wait && slices.Contains(turnWaits, d.Why):
		return turnProgress(w)
	case d.Do == plan.Wait && d.Why == plan.ForHolder:
		return fmt.Sprintf("waiting for %s, which has also reserved the node", w.donor.otherHolder)
	case d.Do == plan.Wait && w.isHeld() && w.facts.Donor.Node == plan.NodeGone:
		return waitText(w, d.Why) + "; the Node was deleted"
	case d.Do == plan.Wait && d.Why == plan.ForWorkshop:
		return workshopProgress(w)
	case d.Do == plan.Wait:
		return waitText(w, d.Why)
	case d.Do == plan.Evict:
		return drainProgress(w)
	}
	return ""
}

// waitText says what a wait is for, and since when.
func waitText(w *pass, why plan.Reason) string {
	if why == plan.ForLook && w.disk.pod != nil && isPeerPod(w) {
		return fmt.Sprintf("reading the files of node %s, to compare the donor's with them", w.disk.pod.Spec.NodeName)
	}
	rest, waits := strings.CutPrefix(waits[why].text, "waiting ")
	if at := stepStart(w.p); waits && !at.IsZero() {
		return fmt.Sprintf("waiting since %s %s", clock24(at), rest)
	} else if waits {
		return "waiting " + rest
	}
	return rest
}

// workshopProgress says until when the workshop's Node may take, and what is missing.
func workshopProgress(w *pass) string {
	text := waits[plan.ForWorkshop].text
	switch at := w.copyRecord().Workshop.StartedAt; {
	case w.copyRecord().Workshop.Boot != "": // with the copy, silence is a loss
		text = fmt.Sprintf("waiting until the workshop, which has the copy, is Ready again, for %s at most; the donor serves", awayLimit)
	case at != nil:
		text = fmt.Sprintf("waiting until the workshop is Ready, until %s at the latest; the donor serves", clock24(at.Add(workshopLimit)))
	}
	if w.copyRecord().Workshops > 1 {
		text = freshWorkshop(w) + "; " + text
	}
	switch {
	case w.copy.late != "":
		text += ": " + w.copy.late
	case w.copy.workshop.Trouble != "":
		text += ": " + w.copy.workshop.Trouble
	case len(w.copy.workshop.Instances) == 0:
		text += ": the cloud has no instance yet"
	case len(w.copyRecord().Workshop.Nodes) == 0:
		text += ": the instance has not joined yet"
	}
	return text
}

// lossProgress is the progress while a lost workshop is removed; empty otherwise.
func lossProgress(w *pass, d plan.Decision) string {
	if !w.facts.Copy.Wanted || d.Do == plan.Fail || !replacesWorkshop(w) {
		return ""
	}
	return freshWorkshop(w) + "; the donor serves"
}

// freshWorkshop says that a workshop was lost, and why.
func freshWorkshop(w *pass) string {
	r := w.copyRecord()
	number := r.Workshops
	if replacesWorkshop(w) {
		number++
	}
	return fmt.Sprintf("a workshop was lost (%s), and a fresh one follows, %d of %d",
		cmp.Or(workshopLoss(w), r.Message, "no cause is known"), number, mostWorkshops)
}

// isUnbegun reports whether the capture waits for its first decisions.
func isUnbegun(p *v1alpha1.Prototype) bool {
	return slices.Contains([]v1alpha1.Phase{"", v1alpha1.PhasePending, v1alpha1.PhasePreflight}, p.Status.Phase)
}

// reportDecisionWait reports a capture that waits until the process has decided about another one.
func reportDecisionWait(p *v1alpha1.Prototype, now time.Time) {
	if p.Status.Phase == "" {
		enterPhase(&p.Status, v1alpha1.PhasePending, now)
	}
	p.Status.Progress = fmt.Sprintf("waiting since %s until Kamino has decided about another capture", clock24(stepStart(p)))
}

// clock24 is a time of the day in a progress, which has no dates.
func clock24(t time.Time) string { return t.UTC().Format("15:04:05 UTC") }

// imageProgress is the progress of the version. Clouds show a new version late, and then without a percentage.
func imageProgress(w *pass) string {
	if w.image.version.State == cloud.Absent {
		return fmt.Sprintf("waiting since %s until the cloud shows the new version", clock24(stepStart(w.p)))
	}
	return fmt.Sprintf("replicating %d%%", w.image.version.Percent)
}

// stepStart is the begin of the current step.
func stepStart(p *v1alpha1.Prototype) time.Time {
	if n := len(p.Status.Steps); n > 0 {
		return p.Status.Steps[n-1].StartedAt.Time
	}
	return p.CreationTimestamp.Time
}

// turnWaits are the waits for other nodes out of service.
var turnWaits = []plan.Reason{plan.ForTurn, plan.ForNeighbour}

// turnProgress names the capture or node ahead, because a person may have to continue the other capture.
func turnProgress(w *pass) string {
	switch {
	case w.preflight.kured.Node != "":
		return "waiting: " + w.preflight.kured.Holder()
	case len(w.preflight.activeCaptures) == 0:
		return "waiting for another capture"
	}
	ahead := &w.preflight.activeCaptures[0]
	return fmt.Sprintf("waiting for prototype %s, which holds node %s", ahead.Name, ahead.Spec.Donor.NodeName)
}

func drainProgress(w *pass) string {
	switch {
	case len(w.donor.blockedPods) > 0:
		return fmt.Sprintf("pods left: %d; %s", len(w.donor.remainingPods.Pods), w.donor.blockedPods[0])
	case len(w.donor.remainingPods.Stuck) > 0:
		return fmt.Sprintf("pods left: %d; delete these pods yourself: %s", len(w.donor.remainingPods.Pods), strings.Join(w.donor.remainingPods.Stuck, ", "))
	}
	return fmt.Sprintf("pods left: %d", len(w.donor.remainingPods.Pods))
}

// reportConditions sets the conditions. Their messages are stable: no times, no counts.
func reportConditions(w *pass, d plan.Decision, now time.Time) {
	p, s := w.p, &w.p.Status
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		setCondition(p, now, kind, status, reason, message)
	}
	reportInService(p, now)
	if proof := s.Proof; proof != nil {
		set(v1alpha1.ConditionGeneralized, metav1.ConditionTrue, "Proven", "every rule of profile "+string(proof.Profile)+" was met")
	}
	if s.Image != nil && s.Image.ReplicationPercent >= 100 {
		set(v1alpha1.ConditionPublished, metav1.ConditionTrue, "Complete", "the image version is complete")
	}
	reason, message := "InProgress", "the capture is in progress"
	if d.Why == plan.ForPromotion {
		reason, message = promotionWait(w)
	}
	switch {
	case s.Phase == v1alpha1.PhaseSucceeded:
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, "Promoted", promotedMessage(p))
	case s.Failure != nil:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, s.Failure.Reason, s.Failure.Message)
	default:
		set(v1alpha1.ConditionReady, metav1.ConditionUnknown, reason, message)
	}
	switch {
	case d.Why == plan.ForPromotion:
		set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, reason, message)
	case s.Terminal():
		set(v1alpha1.ConditionReconciling, metav1.ConditionFalse, "Ended", "the capture has ended")
	default:
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, string(s.Phase), message)
	}
	if s.Failure != nil && d.Do != plan.Succeed {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, s.Failure.Reason, s.Failure.Message)
	}
}

// promotedMessage describes the promotion as a past event: the recipe may have changed since.
func promotedMessage(p *v1alpha1.Prototype) string {
	message := "Kamino pointed pool " + p.Spec.Pool + " at version " + p.Spec.Version
	for _, step := range p.Status.Steps {
		if step.Phase == v1alpha1.PhasePromoting && step.FinishedAt != nil {
			message += " at " + step.FinishedAt.UTC().Format(time.RFC3339)
		}
	}
	return message
}

// endlessWaits are the reasons of endlessWait.
var endlessWaits = []string{KuredLockStale, CaptureAheadStalled, HolderUnattended, CopySlow}

const (
	// KuredLockStale is the reason of condition Stalled: a capture waits for a kured lock whose Node does not exist.
	KuredLockStale = "KuredLockStale"
	// CaptureAheadStalled is the reason of condition Stalled: the capture waits for another capture, which waits for a person.
	CaptureAheadStalled = "CaptureAheadStalled"
	// HolderUnattended is the reason of condition Stalled: no controller releases the other reservation of the donor.
	HolderUnattended = "HolderUnattended"
	// CopySlow is the reason of condition Stalled: the cloud completes the snapshot or the disk of a copy long after the usual time.
	CopySlow = "CopySlow"
)

const (
	// slowSnapshot is a long time for a snapshot: the first of a large disk takes up to an hour. slowDisk is a long time for a disk that is
	// made, attached or detached, which takes seconds to minutes.
	slowSnapshot, slowDisk = time.Hour, 10 * time.Minute
)

// slowCopy says that the cloud takes long for a copy, since when, and what happens then; empty within the usual time.
func slowCopy(w *pass, d plan.Decision, now time.Time) string {
	usual, what := slowSnapshot, "snapshot "+cmp.Or(w.image.snapshot.ID, w.copy.raw.ID)
	switch {
	case !w.facts.Copy.Wanted || d.Do != plan.Wait:
		return ""
	case d.Why == plan.ForVolume:
		usual, what = slowDisk, "disk "+w.copy.disk.ID
	case d.Why != plan.ForSnapshot:
		return ""
	}
	since := stepStart(w.p)
	if now.Sub(since) < usual {
		return ""
	}
	then := "waits on"
	if r := w.donor.reservation; r != nil && !w.facts.Disk.Proven {
		then = "ends without a version at " + w.copiesSince(r.ReservedAt.Time).Add(copyLimit).UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("the cloud has worked on %s since %s, longer than %s: look for it there. Node %s is in service, and the capture %s; "+
		"`kamino cancel %s` ends it now", what, clock24(since), usual, w.p.Spec.Donor.NodeName, then, w.p.Name)
}

// endlessWait returns why a wait can last until a person acts; empty for a wait that ends automatically.
func endlessWait(w *pass, d plan.Decision, now time.Time) (reason, message string) {
	slow := slowCopy(w, d, now)
	switch {
	case d.Do != plan.Wait:
	case slow != "":
		return CopySlow, slow
	case slices.Contains(turnWaits, d.Why) && w.preflight.kured.Release != "":
		return KuredLockStale, w.preflight.kured.Holder()
	case slices.Contains(turnWaits, d.Why) && w.preflight.kured.Node == "" && len(w.preflight.activeCaptures) > 0:
		ahead := &w.preflight.activeCaptures[0]
		if is := meta.FindStatusCondition(ahead.Status.Conditions, v1alpha1.ConditionStalled); is != nil && is.Status == metav1.ConditionTrue &&
			!ahead.Status.Terminal() {
			return CaptureAheadStalled, fmt.Sprintf("%s; prototype %s waits for you (%s): run `kamino describe %s`",
				turnProgress(w), ahead.Name, is.Reason, ahead.Name)
		}
	case d.Why == plan.ForHolder && !isHeldByCapture(w):
		return HolderUnattended, fmt.Sprintf("node %s is also reserved by %s: if the holder no longer works on the node, run `kamino return-node %s`",
			w.p.Spec.Donor.NodeName, w.donor.otherHolder, w.p.Spec.Donor.NodeName)
	}
	return "", ""
}

// isHeldByCapture reports whether another capture has reserved the donor. A capture releases its donor at a deadline.
func isHeldByCapture(w *pass) bool {
	if w.donor.node == nil {
		return false
	}
	other, err := v1alpha1.ReservationOf(w.donor.node.Annotations)
	return err == nil && other != nil && other.UID != w.p.UID && other.Is(v1alpha1.HolderPrototype)
}

// reportEndlessWait sets condition Stalled during an endless wait, and removes the condition afterwards.
func reportEndlessWait(w *pass, d plan.Decision, now time.Time) {
	if reason, message := endlessWait(w, d, now); reason != "" {
		setCondition(w.p, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	} else if waitsEndlessly(w.p) {
		meta.RemoveStatusCondition(&w.p.Status.Conditions, v1alpha1.ConditionStalled)
	}
}

func waitsEndlessly(p *v1alpha1.Prototype) bool {
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && slices.Contains(endlessWaits, stalled.Reason)
}

// clearStalled removes condition Stalled after a successful pass.
func clearStalled(p *v1alpha1.Prototype) {
	if p.Status.Failure == nil && !waitsEndlessly(p) {
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.ConditionStalled)
	}
}

// setStalled sets condition Stalled if a person can fix the error of a pass. Temporary errors, such as a conflict, are
// skipped.
func setStalled(p *v1alpha1.Prototype, err error, now time.Time) {
	stall := func(reason, message string) {
		setCondition(p, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	}
	if errors.Is(err, ErrInService) {
		stall(InService, err.Error()+": cordon and drain the node, then Kamino continues; or delete the Prototype and reboot the node")
		return
	}
	if errors.Is(err, errEarlierVersion) {
		stall(EarlierVersion, err.Error())
		return
	}
	if doubt := IsDoubtful(err); doubt != nil {
		reportDoubt(p, doubt, now)
		return
	}
	var e *cloud.Error
	inCluster := apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	record, _ := v1alpha1.RecordOf(p)
	trying := record.Trial != nil && record.Trial.Name != ""
	tries := trying || p.HasTrial() && p.Status.Image != nil // trouble after a failure is reported only if it delays the trial
	if p.Status.Failure != nil && !tries || !errors.As(err, &e) && !inCluster {
		return
	}
	if p.Status.Phase == "" {
		enterPhase(&p.Status, v1alpha1.PhasePreflight, now)
	}
	if e == nil {
		stall(string(cloud.Denied), err.Error()+"; the capture continues automatically once this is fixed")
		return
	}
	if what := stalledBy(e.Kind, p.Status.Phase); what != "" {
		stall(string(e.Kind), e.Error()+what)
	}
}

// stalledBy says what a person can do about an error of the cloud in a phase; empty for temporary errors.
func stalledBy(kind cloud.Kind, phase v1alpha1.Phase) string {
	switch kind {
	case cloud.Denied, cloud.Unauthenticated, cloud.QuotaExceeded, cloud.Invalid, cloud.Unsupported, cloud.Refused:
		return "; the capture continues automatically once this is fixed"
	case cloud.NotFound:
		if slices.Contains(artifactPhases, phase) {
			return ": the version or the recipe needs this object; the capture continues automatically once the object exists"
		}
	case cloud.Conflict, cloud.Throttled, cloud.Unavailable:
	}
	return ""
}

// InService is the reason of condition Stalled: Kamino touches no node that takes pods in the boot that it must leave.
const InService = "InService"

// artifactPhases are the phases of the version and the recipe. In earlier phases NotFound may be temporary, and the
// donor's observation reports a missing donor.
var artifactPhases = []v1alpha1.Phase{
	v1alpha1.PhasePublishing, v1alpha1.PhaseRunningTrial, v1alpha1.PhaseAwaitingPromotion, v1alpha1.PhasePromoting, v1alpha1.PhaseRetiring,
}

// reportRecipe keeps the change of the recipe as last seen before the promotion. Afterwards the cloud shows only the
// result.
func reportRecipe(w *pass, d plan.Decision) {
	if d.Do != plan.SaveRecipe && d.Do != plan.Promote && d.Why != plan.ForPromotion {
		return
	}
	change := w.promotion.change
	w.p.Status.Recipe = &v1alpha1.RecipeStatus{
		From: change.From, To: change.To, Removes: cloud.DescribeFields(change.Removes), Keeps: cloud.DescribeFields(change.Keeps), HandOver: change.HandOver,
		Contents: w.promotion.contentsChange,
	}
}

func reportImage(w *pass) {
	if w.image.version.ID == "" || w.facts.Image.Version == plan.Foreign {
		return
	}
	tags := w.image.version.Tags
	w.p.Status.Image = &v1alpha1.ImageStatus{
		ID: w.image.version.ID, ReplicationPercent: w.image.version.Percent, Proof: tags[cloud.TagProof], ContentsDigest: tags[cloud.TagContents],
		OS: tags[cloud.TagOS], Kernel: tags[cloud.TagKernel], Kubelet: tags[cloud.TagKubelet], Runtime: tags[cloud.TagRuntime],
	}
}

// reportDoubt reports an answer that Kamino does not believe as progress. After two minutes, which a second look never takes, the
// condition Stalled reports it too.
func reportDoubt(p *v1alpha1.Prototype, e *cloud.Error, now time.Time) {
	p.Status.Progress = "waiting: " + e.Message
	since := now
	if n := len(p.Status.Steps); n > 0 {
		since = p.Status.Steps[n-1].StartedAt.Time
	}
	switch record, _ := v1alpha1.RecordOf(p); {
	case record.Reservation != nil && record.Reservation.MissingSince != nil:
		since = record.Reservation.MissingSince.Time
	case len(record.Missing) > 0:
		since = record.Missing[0].Since.Time
	}
	if now.Sub(since) > 2*time.Minute {
		setCondition(p, now, v1alpha1.ConditionStalled, metav1.ConditionTrue, NotFoundDoubtful, e.Error())
	}
}
