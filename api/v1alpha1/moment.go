package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MomentAnnotation on a NodeOrder with method Quiesce has the engine's word to the pod: a Word. Only the engine may write
// NodeOrders.
const MomentAnnotation = "kamino.dev/moment"

// Word is the engine's word to the pod that makes a node quiet.
type Word string

const (
	// WordProceed lets the pod freeze the disk now.
	WordProceed Word = "Proceed"
	// WordAccepted says that the cloud has accepted the snapshot, WordRefused that there will be none.
	WordAccepted Word = "Accepted"
	WordRefused  Word = "Refused"
)

// MomentState is the state of a node whose disk is copied while the node serves.
type MomentState string

const (
	// MomentQuiet: no program changes packages or pulls an image, and the pod waits for WordProceed.
	MomentQuiet MomentState = "Quiet"
	// MomentNow: the disk is flushed, and no program writes to a frozen disk. The pod waits for the answer of the cloud.
	MomentNow MomentState = "Now"
	// MomentOver: the disk is writable again.
	MomentOver MomentState = "Over"
	// MomentBusy: the node did not become quiet in time, and nothing was changed.
	MomentBusy MomentState = "Busy"
	// MomentFailed: the node cannot be made quiet. No copy may be used.
	MomentFailed MomentState = "Failed"
)

// Moment is the pod's report on a NodeOrder with method Quiesce.
type Moment struct {
	State MomentState `json:"state"`
	// Message says why there is no moment, no freeze, or no copy in time.
	Message string `json:"message,omitempty"`
	// Frozen: the disk is, or was, frozen. FrozenFor is how long writers stood at the most.
	Frozen    bool            `json:"rootFrozen,omitempty"`
	FrozenFor metav1.Duration `json:"frozenFor,omitzero"`
	// InTime: the word WordAccepted came while the disk was quiet. Only then the copy can be used.
	InTime bool `json:"inTime,omitempty"`
	// MachineID and RootUUID identify the disk, for its copy.
	MachineID string `json:"machineID,omitempty"`
	RootUUID  string `json:"rootUUID,omitempty"`
}
