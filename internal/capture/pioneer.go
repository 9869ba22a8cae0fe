package capture

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	patchplan "github.com/kamino-dev/kamino/internal/patch/plan"
	"github.com/kamino-dev/kamino/internal/wording"
)

const (
	// patchLimit is the time for the patch. The unit on the node has one hour for each step (package patch/host).
	patchLimit = 2 * time.Hour
	// soakSlack is the time in addition to the soak, for breaks in the health of the node.
	soakSlack = 2 * time.Hour
)

// patching patches the donor before its capture.
type patching struct {
	client    client.Client
	patcher   patcherOf
	store     store
	events    recorder
	unhealthy func(ctx context.Context, node string, ignore []string) (string, error)
	now       clock
}

// patchStore keeps the record of the patch in the record of the capture.
type patchStore struct {
	store store
	w     *pass
}

// Save writes the record before the effect that follows.
func (s patchStore) Save(ctx context.Context, r nodepatch.Record) error {
	return s.store.record(ctx, s.w, func(to *v1alpha1.Record) { to.Patch = &r })
}

// readPatch sets the progress of the patch from the record.
func readPatch(w *pass) {
	f, r := &w.facts, w.record.Patch
	switch {
	case w.isOrphan || w.p.Spec.Pioneer == nil:
		f.Donor.Patch = plan.NoPatch
	case r == nil || r.StartedAt.IsZero():
		f.Donor.Patch = plan.PatchWanted
	case r.FinishedAt.IsZero():
		f.Donor.Patch = plan.PatchUnderWay
	case r.Failure != "":
		f.Donor.Patch = plan.PatchFailed
	case r.Result == string(patchplan.Current):
		f.Donor.Patch = plan.PatchCurrent
	default:
		f.Donor.Patch = plan.PatchDone
	}
}

// servesForPatch reports whether the patch has not ended, so that no deadline of the capture runs. The patch has deadlines
// of its own.
func servesForPatch(w *pass) bool {
	return w.facts.Donor.Patch == plan.PatchWanted || w.facts.Donor.Patch == plan.PatchUnderWay
}

// patchEndedAt is the end of the patch; zero without an ended patch.
func patchEndedAt(w *pass) time.Time {
	if w.record.Patch == nil {
		return time.Time{}
	}
	return w.record.Patch.FinishedAt.Time
}

// step makes one step of the patch, and records the end of the patch.
func (e patching) step(ctx context.Context, w *pass) error {
	var r nodepatch.Record
	if w.record.Patch != nil {
		r = *w.record.Patch
	} else if w.donor.node != nil {
		r.NodeUID = w.donor.node.UID
	}
	problem, patcher := "", e.patcher(w.p)
	patcher.Unhealthy = func(ctx context.Context, node string) (_ string, err error) {
		if e.unhealthy != nil {
			problem, err = e.unhealthy(ctx, node, w.p.Spec.Settings.Trial.IgnoreDaemonSets)
		}
		return problem, err
	}
	if r.Order != nil {
		patcher.Namespace = r.Order.Namespace // the setting may have changed since the order
	}
	task, err := e.task(ctx, w, r)
	if err != nil {
		return err
	}
	store := patchStore{e.store, w}
	if w.facts.Donor.Patch == plan.PatchWanted && w.facts.Disk.Pod != plan.NoPod { // the pod of the inspection is deleted before the drain
		r.StartedAt = metav1.NewTime(e.now())
		return store.Save(ctx, r)
	}
	pass, err := patcher.Pass(ctx, task, r, store)
	if err != nil {
		return err
	}
	if pass.Done {
		r = *w.record.Patch
		r.FinishedAt = metav1.NewTime(e.now())
		if err := store.Save(ctx, r); err != nil {
			return err
		}
	}
	if !task.Ending { // also while the cloud does not answer
		enterPhase(&w.p.Status, patchPhase(w), e.now())
		reportInService(w.p, e.now())
	}
	e.events.patches(w, pass.Decision)
	reportPatch(w)
	w.p.Status.Progress = patchProgress(w, pass.Decision, problem)
	return nil
}

// task is the patch of the donor.
func (e patching) task(ctx context.Context, w *pass, r nodepatch.Record) (nodepatch.Task, error) {
	pioneer, settings := w.p.Spec.Pioneer.Defaulted(), w.p.Spec.Settings.Defaulted()
	t := nodepatch.Task{
		Holder: holderOf(w.p),
		Node:   w.p.Spec.Donor.NodeName, NodeUID: r.NodeUID, Gone: w.facts.Donor.Power == plan.InstanceGone,
		Patches: v1alpha1.OrderPatches{Patches: pioneer.Patches, Hold: pioneer.Hold}, Drain: settings.Drain,
		Limits: nodepatch.Limits{
			Patch: patchLimit, Reboot: settings.OutOfService.ReadyTimeout.Duration, Soak: pioneer.Soak.Duration, SoakTimeout: pioneer.Soak.Duration + soakSlack,
		},
		Ending: w.facts.Failed || w.facts.Deleting,
		Off:    w.facts.Copy.Wanted && w.facts.Donor.Power == plan.Off, // a copied donor is never started
	}
	if pioneer.MinAge.Duration > 0 {
		t.Patches.MinAge = &pioneer.MinAge
	}
	var err error
	if r.Level != "" && r.BackAt.IsZero() {
		t.Quarantined, err = e.failedLevels(ctx, w.p)
	}
	return t, err
}

// failedLevels are the patch levels that failed in other captures of the pool. The status of policies also has the levels
// of deleted Prototypes.
func (e patching) failedLevels(ctx context.Context, p *v1alpha1.Prototype) (map[string]bool, error) {
	failed := map[string]bool{}
	err := eachOfPool(ctx, e.client, p, func(other *v1alpha1.Prototype) {
		if other.Status.Patch != nil && other.Status.Patch.FailedLevel != "" {
			failed[other.Status.Patch.FailedLevel] = true
		}
	}, func(_ string, f v1alpha1.FailedPatches) { failed[f.Level] = f.Level != "" })
	return failed, err
}

// patchPhase is the phase of a step of the patch, from the record before the step.
func patchPhase(w *pass) v1alpha1.Phase {
	switch r := w.record.Patch; {
	case r == nil || r.Result != string(patchplan.Patched):
		return v1alpha1.PhasePatching
	case r.BackAt.IsZero():
		return v1alpha1.PhaseRebooting
	}
	return v1alpha1.PhaseSoaking
}

// reportPatch copies the record of the patch to the status.
func reportPatch(w *pass) {
	if r := w.record.Patch; r != nil && w.p.Spec.Pioneer != nil {
		w.p.Status.Patch = r.PatchStatus.DeepCopy()
	}
}

// patchProgress describes the step of the patch. The text is stable during a wait.
func patchProgress(w *pass, d patchplan.Decision, problem string) string {
	r := w.record.Patch
	switch {
	case w.facts.Failed || w.facts.Deleting:
		return "the patch ends before the release of the node"
	case d.Why == patchplan.ForHealth:
		return "waiting until the node is healthy: " + problem
	case d.Do == patchplan.Cordon, d.Do == patchplan.Evict, d.Why == patchplan.ForNode:
		return "draining the node for its patch"
	case d.Why == patchplan.ForReport:
		return "installing patches"
	case d.Why == patchplan.ForReboot, d.Why == patchplan.ForReady, d.Do == patchplan.OrderReboot:
		return "rebooting"
	case d.Why == patchplan.ForSoak && problem != "":
		return "in service, but not healthy: " + problem
	case d.Why == patchplan.ForSoak && !r.HealthySince.IsZero():
		until := r.HealthySince.Add(w.p.Spec.Pioneer.Defaulted().Soak.Duration)
		return "in service; the capture continues at " + until.UTC().Format(time.RFC3339)
	}
	return ""
}

// patches records the steps that users wait for.
func (a recorder) patches(w *pass, d patchplan.Decision) {
	name, r := w.p.Spec.Donor.NodeName, w.record.Patch
	switch d.Do {
	case patchplan.OrderPatch:
		a.event(w, corev1.EventTypeNormal, "Patching", "node %s is drained and installs its pending patches", name)
	case patchplan.OrderReboot:
		a.event(w, corev1.EventTypeNormal, "Rebooting", "node %s has installed patches for %s and reboots", name, wording.Count(int(r.Installed), "package"))
	case patchplan.Uncordon:
		a.event(w, corev1.EventTypeNormal, "Soaking", "node %s is patched and takes pods; the capture waits until the node has been healthy for %s",
			name, w.p.Spec.Pioneer.Defaulted().Soak.Duration)
	case patchplan.Quarantine:
		a.event(w, corev1.EventTypeWarning, "PatchLevelFailed", "patch level %s failed on node %s; no other node of pool %s boots the level",
			r.FailedLevel, name, w.p.Spec.Pool)
	default:
	}
}

// patchFailureMessage explains the failures of pioneers; an empty text is another failure.
func patchFailureMessage(w *pass, why plan.Reason) string {
	n, r := w.p.Spec.Donor.NodeName, w.record.Patch
	switch {
	case why == plan.NothingToPatch:
		return fmt.Sprintf("node %s has all patches, so no new image is needed. To capture the node as it is, run `kamino capture %s`", n, n)
	case why == plan.PatchLevelChanged && w.disk.proof != nil && r != nil:
		return fmt.Sprintf("the disk of node %s has patch level %s, but the watched node had %s: another tool changed packages. Disable that tool, then %s",
			n, cmp.Or(w.disk.proof.PatchLevel, "unknown"), r.Level, retryPatch(w))
	case why == plan.DonorNotPatched && r != nil:
		return patchTroubleMessage(w, r)
	}
	return ""
}

// retryPatch is the remedy of a new attempt with a pioneer.
func retryPatch(w *pass) string {
	return fmt.Sprintf("run `kamino capture %s --pioneer`", w.p.Spec.Donor.NodeName)
}

// leavingMessage explains the end of the drain of a node that is about to be removed; empty for any other node.
func leavingMessage(w *pass) string {
	if w.donor.node == nil || nodestate.Leaving(w.donor.node) == "" {
		return ""
	}
	return fmt.Sprintf("node %s is about to be removed (taint %s), so Kamino ended its drain: capture another node",
		w.donor.node.Name, nodestate.Leaving(w.donor.node))
}

// patchTroubleMessage explains the failure in the record of the patch.
func patchTroubleMessage(w *pass, r *nodepatch.Record) string {
	n, limits := w.p.Spec.Donor.NodeName, w.p.Spec.Settings.Defaulted()
	retry := retryPatch(w)
	switch patchplan.Reason(r.Failure) {
	case patchplan.DrainTimeout:
		if said := leavingMessage(w); said != "" {
			return said
		}
		return fmt.Sprintf(
			"node %s was not drained for its patch within %s. Find the remaining pods with `kubectl get pods -A --field-selector spec.nodeName=%s`, then %s",
			n, limits.Drain.Timeout.Duration, n, retry)
	case patchplan.NodeUnhealthy:
		return fmt.Sprintf(
			"node %s was not patched, because the node was not healthy for %s: %s. Repair the DaemonSet, or name the DaemonSet in settings.trial.ignoreDaemonSets. Then %s",
			n, limits.Drain.Timeout.Duration, r.Problem, retry)
	case patchplan.PatchRefused:
		return fmt.Sprintf("node %s installed no patches: %s. Correct the cause, then %s", n, strings.TrimSuffix(orNothing(r.Problem), "."), retry)
	case patchplan.PatchFailed:
		return fmt.Sprintf("the patch of node %s failed: %s. The node is marked with %s: repair the node, or replace the node",
			n, orNothing(r.Problem), v1alpha1.PatchFailedAnnotation)
	case patchplan.PatchTimeout:
		return fmt.Sprintf("node %s did not report its patch within %s. Read the journal of the unit kamino-patch on the node, then %s", n, patchLimit, retry)
	case patchplan.Interrupted:
		return fmt.Sprintf("another client rebooted node %s during its patch. Find that client, then %s", n, retry)
	case patchplan.LevelQuarantined:
		return fmt.Sprintf(
			"patch level %s of node %s failed in an earlier capture of pool %s. Wait for newer patches, or hold the faulty package with spec.pioneer.hold",
			r.Level, n, w.p.Spec.Pool)
	case patchplan.NotRebooted, patchplan.RebootTimeout:
		return fmt.Sprintf("node %s was not Ready under another boot within %s after its patch. Read the boot log of the node; patch level %s is not used",
			n, limits.OutOfService.ReadyTimeout.Duration, r.Level)
	case patchplan.SoakFailed:
		return fmt.Sprintf(
			"the patched node %s was not healthy in service for %s without a break: %s. "+
				"Check the node, its drivers and its DaemonSets; patch level %s is not used",
			n, w.p.Spec.Pioneer.Defaulted().Soak.Duration, orNothing(r.Problem), r.Level)
	default:
		return fmt.Sprintf("the patch of node %s ended without a result (%s). Capture another node, or %s", n, r.Failure, retry)
	}
}

func orNothing(text string) string {
	if text == "" {
		return "no reason given"
	}
	return text
}
