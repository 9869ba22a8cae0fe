package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Names on objects outside this group. Other parts and tools depend on these names.
const (
	// ReservationAnnotation is on a reserved Node, and on the Lease of that reservation. The value is a Reservation as JSON.
	// Kamino believes the Lease. On the Node the annotation is a lock for others, and information for people.
	ReservationAnnotation = "kamino.dev/reservation"

	// ReservedNodeAnnotation and ReservedNodeUIDAnnotation are on the Lease of a reservation: the Node's name and UID.
	ReservedNodeAnnotation    = "kamino.dev/node"
	ReservedNodeUIDAnnotation = "kamino.dev/node-uid"

	// HolderLabel is on the Lease of a reservation: the UID of the holder.
	HolderLabel = "kamino.dev/holder"

	// BegunAnnotation on a Prototype is the Prototype's UID, from the begin of the capture on. The annotation gives no power:
	// with another UID, or without a record, the capture ends, because a backup has restored the object.
	BegunAnnotation = "kamino.dev/begun"

	// FormerRecordAnnotation held the record of a capture in earlier versions, and is never read. Its presence, together
	// with a status, means that such a version has begun the capture.
	FormerRecordAnnotation = "kamino.dev/record"

	// OrderAnnotation on a generalize pod is the UID of the pod's NodeOrder.
	OrderAnnotation = "kamino.dev/order"

	// CaptureFinalizer keeps a deleted Prototype until the donor is released and the capture has cleaned up.
	CaptureFinalizer = "kamino.dev/capture"

	// PoolLabel stands on a Prototype: the object name of its pool (see ObjectName).
	PoolLabel = "kamino.dev/pool"

	// PrototypeLabel stands on the generalize pod and on saved recipes: the Prototype they belong to.
	PrototypeLabel = "kamino.dev/prototype"

	// PrototypeUIDLabel on the generalize pod is the UID of the pod's Prototype.
	PrototypeUIDLabel = "kamino.dev/prototype-uid"

	// ScaleDownDisabledAnnotation keeps the cluster autoscaler from removing a node.
	// Source: cluster-autoscaler FAQ, "How can I prevent Cluster Autoscaler from scaling down a particular node?".
	ScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

	// KeptUntilAnnotation on a Node is the time, in RFC 3339, until which Kamino keeps the cluster autoscaler from removing the node, by
	// ScaleDownDisabledAnnotation: the node is patched, and no image has its patches yet.
	KeptUntilAnnotation = "kamino.dev/kept-until"

	// SafeToEvictAnnotation with "false" on a pod keeps the cluster autoscaler from evicting it.
	// Source: cluster-autoscaler FAQ, "What types of pods can prevent CA from removing a node?".
	SafeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	// DoNotDisruptAnnotation with "true" keeps Karpenter from disrupting a node, or the node of a pod.
	// Source: Karpenter documentation, "Disruption", node-level controls.
	DoNotDisruptAnnotation = "karpenter.sh/do-not-disrupt"

	// PatchedAtAnnotation on a Node is the time, in RFC 3339, of the last patch that needs a reboot. Any patcher may write
	// the annotation.
	PatchedAtAnnotation = "kamino.dev/patched-at"

	// RebootPendingAnnotation on a Node, with any value but "false", marks a node that waits for its reboot.
	RebootPendingAnnotation = "kamino.dev/reboot-pending"

	// PatchFailedAnnotation on a Node, with any value but "false", marks a node with a failed or half-installed patch. A policy
	// never captures such a node. The next successful patch removes the annotation.
	PatchFailedAnnotation = "kamino.dev/patch-failed"

	// PatchesPendingAnnotation on a Node holds PendingPatches as JSON: the result of the last check of the pool.
	PatchesPendingAnnotation = "kamino.dev/patches-pending"

	// PatchLevelAnnotation on a Node identifies the node's package list. Nodes with the same value have the same packages.
	PatchLevelAnnotation = "kamino.dev/patch-level"

	// KuredRebootNeededAnnotation holds the time at which kured found that the node needs a reboot, not the time of the
	// reboot. Source: kured with --annotate-nodes, observed.
	KuredRebootNeededAnnotation = "weave.works/kured-most-recent-reboot-needed"

	// KuredRebootInProgressAnnotation stands from that moment until kured has rebooted the node. It stays for
	// ever where the reboot came about in another way. Source: as above.
	KuredRebootInProgressAnnotation = "weave.works/kured-reboot-in-progress"

	// PolicyLabel stands on a Prototype that a policy decided: the PrototypePolicy's name (see LabelValue).
	PolicyLabel = "kamino.dev/policy"

	// RetryAnnotation on a PrototypePolicy has any value: after a change of the value, Kamino retries refused captures at
	// once. RetryCommand changes the value.
	RetryAnnotation = "kamino.dev/retry"
)

// RetryCommand is the command that retries refused captures of a policy.
func RetryCommand(policy string) string {
	return "kubectl annotate --overwrite prototypepolicy " + policy + " " + RetryAnnotation + `="$(date)"`
}

// DefinitionsCommand is the command that replaces the definitions of Kamino's kinds. The field manager is that of Helm 4, so
// that a chart's installation finds no conflict.
const DefinitionsCommand = "kamino manifests --crds | kubectl apply --server-side --force-conflicts --field-manager=helm -f -"

// DefaultNamespace is the namespace of the engine: Leases, Secrets and saved recipes.
const DefaultNamespace = "kamino-system"

// DefaultGeneralizeNamespace holds the generalize pods with their NodeOrders, but no Secret of the engine: a pod can mount each
// Secret of its namespace. The chart creates this namespace for a release with the name kamino.
const DefaultGeneralizeNamespace = "kamino-generalize"

// LeaseName is the Lease of the process that runs captures: the controller, or a command without a controller.
const LeaseName = "kamino-controller"

// GeneralizeServiceAccount is the identity of the generalize pod. The account may only read NodeOrders and write their status.
const GeneralizeServiceAccount = "kamino-generalize"

// ObjectName turns a pool's name into one that Kubernetes takes: lower case, and "-" for all but letters and
// digits. A dot is allowed in a name, but only between letters or digits, which a pool's name does not promise.
func ObjectName(pool string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		default:
			return '-'
		}
	}, pool)
	return strings.Trim(mapped, "-")
}

// PrototypeName is the name of the attempt-th try (from 1) to capture the version for the pool. The name is the lock: two
// concurrent deciders compute the same name, and the API server accepts one object.
func PrototypeName(pool, version string, attempt int) string {
	name := ObjectName(pool) + "-" + version
	if attempt > 1 {
		name = fmt.Sprintf("%s-%d", name, attempt)
	}
	return name
}

// maxLabelValue is Kubernetes' own limit for the value of a label.
const maxLabelValue = 63

// LabelValue is an object's name as a value of a label (PoolLabel, PrototypeLabel). A name beyond the 63 characters of a
// label becomes its beginning and a hash.
func LabelValue(name string) string {
	if len(name) <= maxLabelValue {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:maxLabelValue-len(hash)], "-.") + hash
}

// TrialKey names a label and an annotation on the Node of a trial. The label is the UID of the version's Prototype. The
// annotation records the changes of the trial to the Node.
const TrialKey = "kamino.dev/trial"

// maxLeaseNode is how much of a Node's name is in the name of a Lease, which may have 253 characters.
const maxLeaseNode = 200

// ReservationLeaseName is the name of the Lease for the reservation of a Node. The hash contains the UID, so that a Node that was
// deleted and made again has another Lease.
func ReservationLeaseName(node string, uid types.UID) string {
	sum := sha256.Sum256([]byte(node + "\n" + string(uid)))
	return "node-" + strings.TrimRight(node[:min(len(node), maxLeaseNode)], "-.") + "-" + hex.EncodeToString(sum[:8])
}
