package plan

import "github.com/kamino-dev/kamino/internal/step"

// Decision is one action, with the reason of a wait or a failure.
type Decision = step.Decision[Action, Reason]

var do, wait, fail = step.Verbs[Action, Reason]()

// Action is the effect of one pass.
type Action string

// The actions in the order of a patch without trouble.
const (
	// Wait changes nothing; Why is the awaited event.
	Wait Action = step.Wait
	// Cordon keeps new pods away. Evict requests one eviction for each remaining pod.
	Cordon Action = "Cordon"
	Evict  Action = "Evict"
	// OrderPatch creates the NodeOrder of the patch, then records the NodeOrder and the boot.
	OrderPatch Action = "OrderPatch"
	// OrderCheck creates the NodeOrder of a check, its key and its pod. Only NextCheck returns OrderCheck.
	OrderCheck Action = "OrderCheck"
	// RunPod creates the pod of the recorded order.
	RunPod Action = "RunPod"
	// Adopt records the UID of the pod.
	Adopt Action = "Adopt"
	// Believe copies the signed report into the record.
	Believe Action = "Believe"
	// MarkPending annotates the node: a reboot is pending.
	MarkPending Action = "MarkPending"
	// DeletePod removes the pod, and DeleteOrder the NodeOrder with its key.
	DeletePod   Action = "DeletePod"
	DeleteOrder Action = "DeleteOrder"
	// OrderReboot creates the NodeOrder of the reboot, then records the NodeOrder.
	OrderReboot Action = "OrderReboot"
	// MarkPatched annotates the node: time of the patch and patch level. The other annotations of patches go.
	MarkPatched Action = "MarkPatched"
	// Uncordon returns the node to service. The reservation stays.
	Uncordon Action = "Uncordon"
	// Finish ends the patch with success.
	Finish Action = "Finish"
	// Fail records the failure with its reason.
	Fail Action = step.Fail
	// Quarantine records that the patch level failed, so that no other node boots the level.
	Quarantine Action = "Quarantine"
	// MarkFailed annotates the node: the patch failed.
	MarkFailed Action = "MarkFailed"
	// Close ends a failed patch, after the removal of all leftovers.
	Close Action = "Close"
)

// Actions lists all actions, for exhaustive tests.
var Actions = []Action{
	Wait, Cordon, Evict, OrderPatch, RunPod, Adopt, Believe, MarkPending, DeletePod, DeleteOrder, OrderReboot, MarkPatched, Uncordon,
	Finish, Fail, Quarantine, MarkFailed, Close,
}

// Reason is the awaited event of a wait, or the cause of a failure.
type Reason string

// The events that a patch waits for.
const (
	ForNode   Reason = "Node"
	ForHealth Reason = "Health"
	ForReport Reason = "Report"
	ForReboot Reason = "Reboot"
	ForReady  Reason = "Ready"
	ForSoak   Reason = "Soak"
)

// The causes of failures.
const (
	// Stopped: the holder is deleted or has failed.
	Stopped         Reason = "Stopped"
	NodeGoneAway    Reason = "NodeGone"
	ReservationLost Reason = "ReservationLost"
	DrainTimeout    Reason = "DrainTimeout"
	// NodeUnhealthy: a DaemonSet was not Ready on the node before the patch.
	NodeUnhealthy Reason = "NodeUnhealthy"
	// Interrupted: the node rebooted during the patch.
	Interrupted  Reason = "Interrupted"
	PatchTimeout Reason = "PatchTimeout"
	PatchFailed  Reason = "PatchFailed"
	// PatchRefused: the node installed nothing, for example because a repository was not read. That never means that nothing
	// is to install.
	PatchRefused     Reason = "PatchRefused"
	LevelQuarantined Reason = "LevelQuarantined"
	// NotRebooted: the node is Ready under the old boot. RebootTimeout: the node did not come back.
	NotRebooted   Reason = "NotRebooted"
	RebootTimeout Reason = "RebootTimeout"
	SoakFailed    Reason = "SoakFailed"
)

// Blames reports whether the patch level is the likely cause of the failure.
func (r Reason) Blames() bool {
	return r == PatchFailed || r == RebootTimeout || r == SoakFailed
}
