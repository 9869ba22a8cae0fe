package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Names that stand on objects outside this group, and that other parts and tools rely on.
const (
	// ReservationAnnotation is on a reserved Node, and on the Lease of that reservation. The value is a Reservation as JSON.
	// Kamino believes the Lease. On the Node the annotation is a lock for others, and information for people.
	ReservationAnnotation = "kamino.dev/reservation"

	// ReservedNodeAnnotation and ReservedNodeUIDAnnotation are on the Lease of a reservation: the Node's name and UID.
	ReservedNodeAnnotation    = "kamino.dev/node"
	ReservedNodeUIDAnnotation = "kamino.dev/node-uid"

	// HolderLabel is on the Lease of a reservation: the UID of the holder.
	HolderLabel = "kamino.dev/holder"

	// RecordAnnotation stands on a Prototype and holds a Record as JSON: what the capture must not
	// forget even if its status is lost. Only the capture engine writes it.
	RecordAnnotation = "kamino.dev/record"

	// ProofAnnotation stands on a Prototype and holds a Proof as JSON. Only the capture engine writes it: it
	// copies what the pod on the donor has signed on its Order.
	ProofAnnotation = "kamino.dev/proof"

	// UnprovenAnnotation stands on a Prototype and holds an Unproven as JSON: why the donor's pod ended without a
	// proof. The capture engine writes it, as it does the proof.
	UnprovenAnnotation = "kamino.dev/unproven"

	// OrderAnnotation stands on a generalize pod: the UID of the Order that it was made for.
	OrderAnnotation = "kamino.dev/order"

	// CaptureFinalizer keeps a deleted Prototype until its donor is given back and nothing is left behind.
	CaptureFinalizer = "kamino.dev/capture"

	// PoolLabel stands on a Prototype: the object name of its pool (see ObjectName).
	PoolLabel = "kamino.dev/pool"

	// PrototypeLabel stands on the generalize pod and on saved recipes: the Prototype they belong to.
	PrototypeLabel = "kamino.dev/prototype"

	// PrototypeUIDLabel stands on the generalize pod: the UID of the Prototype that it belongs to.
	PrototypeUIDLabel = "kamino.dev/prototype-uid"

	// ScaleDownDisabledAnnotation keeps the cluster autoscaler from removing a node.
	// Source: cluster-autoscaler FAQ, "How can I prevent Cluster Autoscaler from scaling down a particular node?".
	ScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

	// SafeToEvictAnnotation with "false" on a pod keeps the cluster autoscaler from evicting it.
	// Source: cluster-autoscaler FAQ, "What types of pods can prevent CA from removing a node?".
	SafeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	// DoNotDisruptAnnotation with "true" keeps Karpenter from disrupting a node, or the node of a pod.
	// Source: Karpenter documentation, "Disruption", node-level controls.
	DoNotDisruptAnnotation = "karpenter.sh/do-not-disrupt"

	// PatchedAtAnnotation stands on a Node with the time, in RFC 3339, of its last patch that needs a reboot.
	// Any patcher may write it.
	PatchedAtAnnotation = "kamino.dev/patched-at"

	// RebootPendingAnnotation stands on a Node, with any value but "false", while it waits for its reboot.
	RebootPendingAnnotation = "kamino.dev/reboot-pending"

	// KuredRebootNeededAnnotation holds the moment in which kured found that the node needs a reboot, which is
	// not the moment of the reboot. Source: kured with --annotate-nodes, observed.
	KuredRebootNeededAnnotation = "weave.works/kured-most-recent-reboot-needed"

	// KuredRebootInProgressAnnotation stands from that moment until kured has rebooted the node. It stays for
	// ever where the reboot came about in another way. Source: as above.
	KuredRebootInProgressAnnotation = "weave.works/kured-reboot-in-progress"

	// PolicyLabel stands on a Prototype that a policy decided: the PrototypePolicy's name (see LabelValue).
	PolicyLabel = "kamino.dev/policy"

	// RetryAnnotation stands on a PrototypePolicy with any value: whenever that changes, a capture that was
	// refused is tried again at once.
	RetryAnnotation = "kamino.dev/retry"
)

// DefaultNamespace is where the engine works: its Leases, its Secrets and saved recipes.
const DefaultNamespace = "kamino-system"

// DefaultGeneralizeNamespace holds the generalize pods with their Orders. A pod can mount each Secret of its namespace: no Secret of
// the engine is in this one. The chart makes a namespace of this name for a release that is called kamino.
const DefaultGeneralizeNamespace = "kamino-generalize"

// LeaseName is the Lease that whoever drives captures holds: the controller, or a command while no controller runs.
const LeaseName = "kamino-controller"

// GeneralizeServiceAccount is the identity of the generalize pod. It may read Orders and write their status, nothing else.
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

// PrototypeName is the name of the attempt-th try (from 1) to capture the version for the pool. It is the
// lock: two who decide the same thing at once compute the same name, and the API server lets one of them win.
func PrototypeName(pool, version string, attempt int) string {
	name := ObjectName(pool) + "-" + version
	if attempt > 1 {
		name = fmt.Sprintf("%s-%d", name, attempt)
	}
	return name
}

// maxLabelValue is Kubernetes' own limit for the value of a label.
const maxLabelValue = 63

// LabelValue is the form in which an object's name stands in a label (PoolLabel, PrototypeLabel): the name
// itself, or where that is longer than the 63 characters of a label, its beginning and a hash of all of it.
func LabelValue(name string) string {
	if len(name) <= maxLabelValue {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:maxLabelValue-len(hash)], "-.") + hash
}

// TrialKey names two things on the Node of a trial: a label whose value is the UID of the Prototype that the version was
// captured by, and an annotation in which whoever looks at the node keeps what it has done to it.
const TrialKey = "kamino.dev/trial"

// maxLeaseNode is how much of a Node's name is in the name of a Lease, which may have 253 characters.
const maxLeaseNode = 200

// ReservationLeaseName is the name of the Lease for the reservation of a Node. The hash contains the UID, so that a Node that was
// deleted and made again has another Lease.
func ReservationLeaseName(node string, uid types.UID) string {
	sum := sha256.Sum256([]byte(node + "\n" + string(uid)))
	return "node-" + strings.TrimRight(node[:min(len(node), maxLeaseNode)], "-.") + "-" + hex.EncodeToString(sum[:8])
}
