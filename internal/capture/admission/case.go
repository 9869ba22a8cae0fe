// Package admission decides whether a capture may begin. A Case holds all facts; Judge returns all reasons against the
// capture, in the order of display. Capture, plan and doctor share this code, so that their messages are equal.
//
// The package is pure: package capture gathers the case. Package selection chooses the donor, the provider adds refusals of
// the cloud, and package capture/plan decides whose turn comes next.
package admission

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history/imagecount"
)

// MaxClockDifference is the limit between the clocks of this process, the API server and the donor. Deadlines and versions
// depend on time.
const MaxClockDifference = 5 * time.Minute

// Lookup is the result of one look, or its error. The zero Lookup means that nothing has looked.
type Lookup[T any] struct {
	looked bool
	value  T
	err    error
}

// Found is the result of a look.
func Found[T any](value T) Lookup[T] { return Lookup[T]{looked: true, value: value} }

// Unread is the error of a look.
func Unread[T any](err error) Lookup[T] { return Lookup[T]{looked: true, err: err} }

// LookupOf returns Found or Unread.
func LookupOf[T any](value T, err error) Lookup[T] {
	if err != nil {
		return Unread[T](err)
	}
	return Found(value)
}

// Get returns the result, or the error of the look.
func (s Lookup[T]) Get() (T, error) {
	if !s.looked {
		return s.value, errNotLooked
	}
	return s.value, s.err
}

// errNotLooked is a mistake of the caller: facts without a look admit nothing.
var errNotLooked = errors.New("not checked")

// resultOf returns the result, or an error that names the missing fact.
func resultOf[T any](s Lookup[T], what string) (T, error) {
	value, err := s.Get()
	if errors.Is(err, errNotLooked) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return value, err
}

// Case holds all facts for and against a capture. Facts without a question may be the zero Lookup.
type Case struct {
	// Now is the clock of this process.
	Now time.Time
	// Prototype is the decision; the object need not exist.
	Prototype *v1alpha1.Prototype
	// Pool of the decision, and its name. Empty if the donor belongs to no pool; Unplaced then holds the reason.
	Pool     cloud.PoolID
	PoolName string
	Unplaced string

	// Process is the process that asks.
	Process Process
	// Again: the case was judged before the look at the donor's disk, and constant facts are not judged again.
	Again bool

	// Queued: the limit of reserved donors is reached, or kured reboots a node.
	Queued Lookup[bool]
	// Others are other Prototypes.
	Others Lookup[[]OtherCapture]
	Donor  Lookup[Donor]
	// PoolNodes of the donor, if its Node exists.
	PoolNodes Lookup[PoolNodes]
	Pods      Lookup[Pods]
	// ClockAhead is the lead of the donor's clock over the API server's clock; zero if unknown.
	ClockAhead Lookup[time.Duration]
	// BuiltFrom is the pool's version of the donor's image; the zero Image without such a version.
	BuiltFrom Lookup[cloud.Image]

	// Account reports whether the pods' service account exists, and RightLacking is its missing permission. OrderRefused and
	// PodRefused are errors of the API server for order and pod; empty without an error.
	Account      Lookup[bool]
	RightLacking Lookup[string]
	OrderRefused Lookup[string]
	PodRefused   Lookup[string]
	// Rules of the user, if the settings name rules.
	Rules Lookup[Rules]
	// CustomData is the copy in the settings, if there is one.
	CustomData Lookup[CustomData]
	// MayDelete reports whether this process may delete pods, if a drain may end with deletion.
	MayDelete Lookup[bool]

	// NoToken: the cluster lists its bootstrap tokens, and no valid token exists. Only a capture by copy asks.
	NoToken Lookup[bool]
	// CopyRightLacking is the first permission that this process lacks for a capture by copy, as a verb with a resource; empty if
	// it has all.
	CopyRightLacking Lookup[string]

	// CanCopy: the cloud copies disks in use, and this process can run a workshop. InPlace: the cloud stops and starts donors.
	CanCopy, InPlace bool
	// Cloud holds the refusals of the provider's preflight, and Recipe the current pool.
	Cloud  Lookup[[]cloud.Refusal]
	Recipe Lookup[cloud.Pool]
	// Images of the pool's instances; the zero value far below the limit.
	Images Lookup[Images]
}

// Process is what a process knows of itself.
type Process struct {
	// Image of the pod on the donor, if the settings name none. AllowedImages are images that the settings may name: exact,
	// by repository, or by prefix ("x/").
	Image         string
	AllowedImages []string
	// Namespace of the pods.
	Namespace string
	// OwnNode is the node of this process; empty outside a cluster.
	OwnNode string
	// Drives: this process would run the capture, so its permissions matter.
	Drives bool
}

// OtherCapture is another Prototype with its pool; the pool is empty if unknown.
type OtherCapture struct {
	Prototype *v1alpha1.Prototype
	Pool      cloud.PoolID
}

// Donor is the Node with the donor's name.
type Donor struct {
	// Node is nil if there is none.
	Node *corev1.Node
	// Replaced: the Node now belongs to another instance.
	Replaced bool
}

// PoolNodes are the nodes of the donor's pool.
type PoolNodes struct {
	// Of is the pool of the donor's Node; empty without a reason if the Node is gone meanwhile.
	Of cloud.Membership
	// OfName is the name of that pool.
	OfName string
	// Peers are the other nodes in the pool of the decision.
	Peers []corev1.Node
	// Reserved are the peers with a reservation that a Lease confirms, by UID. Nil without permission to read Leases:
	// Kamino trusts the Nodes.
	Reserved map[types.UID]bool
}

// Pods of the donor that block a drain, in a few words each.
type Pods struct {
	// Stuck pods need force for an eviction.
	Stuck []string
	// Protected pods ask for no eviction.
	Protected []string
	// Rebooter is the DaemonSet of kured if kured runs on the node of a pioneer, as namespace/name; else empty.
	Rebooter string
	// Blocked pods have a disruption budget that allows no eviction now. Only a preview asks: a capture waits for the
	// budget until its timeout.
	Blocked []string
}

// Rules holds problems with the user's rules.
type Rules struct {
	// Missing: the ConfigMap does not exist.
	Missing bool
	// Wrong is the problem; empty without a problem.
	Wrong string
}

// CustomData holds problems with the copy of customData.
type CustomData struct {
	// Missing names the missing object with the remedy; nil if the copy exists.
	Missing *cloud.Refusal
	// Needed: the recipe still has the original of the copy.
	Needed bool
}

// Images counts the images of a pool.
type Images struct {
	Spread imagecount.Count
	// Names of the nodes by instance, as far as a message needs the names.
	Names map[cloud.InstanceID]string
}

// name of an instance's node, or the instance's ID without a node.
func (i Images) name(id cloud.InstanceID) string {
	if name, found := i.Names[id]; found {
		return name
	}
	return string(id)
}

// Warning is the message about the images, in the form of a refusal.
func (i Images) Warning(pool string, recipe cloud.Recipe) cloud.Refusal {
	return i.Spread.Warning(pool, recipe, i.name)
}
