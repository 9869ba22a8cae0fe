// Package admission decides whether a capture may begin. All that was looked at for it is one Case; Judge makes of it every
// reason against the capture, in the order in which they are told. Capture, plan and doctor judge by the same code, so that
// each says the sentence that the others say.
//
// It is pure: who gathers the case is package capture. Which of a pool's nodes is the best donor is package selection's to
// say, what the cloud itself refuses the provider's, and whose turn it is package capture/plan's.
package admission

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imagecount"
)

// MaxClockDifference between the asking process, the API server and the donor. Deadlines and versions are made of times.
const MaxClockDifference = 5 * time.Minute

// Seen is what one look found, or why it could not be made. The zero Seen was not looked at.
type Seen[T any] struct {
	looked bool
	value  T
	err    error
}

// Found is what a look found.
func Found[T any](value T) Seen[T] { return Seen[T]{looked: true, value: value} }

// Unread is a look that could not be made.
func Unread[T any](err error) Seen[T] { return Seen[T]{looked: true, err: err} }

// Look is the one or the other.
func Look[T any](value T, err error) Seen[T] {
	if err != nil {
		return Unread[T](err)
	}
	return Found(value)
}

// Get is what was found. Where nothing was, the error says why.
func (s Seen[T]) Get() (T, error) {
	if !s.looked {
		return s.value, errNotLooked
	}
	return s.value, s.err
}

// errNotLooked is a mistake of whoever gathers: what nobody has looked at admits nothing.
var errNotLooked = errors.New("not checked")

// of is what was found, and an error that says of what there is none.
func of[T any](s Seen[T], what string) (T, error) {
	value, err := s.Get()
	if errors.Is(err, errNotLooked) {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return value, err
}

// Case is all that speaks for or against a capture, as it was looked at. What a question does not come to need be no more
// than the zero Seen.
type Case struct {
	// Now by the clock of the process that asks.
	Now time.Time
	// Prototype is the decision. It need not exist.
	Prototype *v1alpha1.Prototype
	// Pool that was decided about, and its name. Empty if the donor is of none, and Unplaced then says why.
	Pool     cloud.PoolID
	PoolName string
	Unplaced string

	// Image of the pod on the donor where the settings name none, and AllowedImages that they may name beside it: exactly,
	// by repository, or what is below one ("x/").
	Image         string
	AllowedImages []string
	// Namespace is where the pods run.
	Namespace string
	// OwnNode is the node that the asking process runs on; empty if it runs on none.
	OwnNode string
	// Drives: the asking process would carry the capture out, so that its own rights count.
	Drives bool
	// MayRemove: the cloud's provider knows how to remove an instance, as a donor has to be that does not return.
	MayRemove bool
	// Again: all was asked before the donor's disk was looked at, and what does not change by itself is not asked again.
	Again bool

	// Queued: others hold as many donors as may be held at once, or kured reboots a node.
	Queued Seen[bool]
	// Others are the other Prototypes.
	Others Seen[[]Other]
	Donor  Seen[Donor]
	// Surroundings of the donor, if its Node is there.
	Surroundings Seen[Surroundings]
	Pods         Seen[Pods]
	// ClockAhead is by how much the donor's clock is ahead of the API server's; zero if nobody says.
	ClockAhead Seen[time.Duration]
	// BuiltFrom is the pool's version that the donor was built from; the zero Image if it was none.
	BuiltFrom Seen[cloud.Image]

	// Account tells whether the pods' service account is there. RightLacking is what it may not do; OrderRefused and
	// PodRefused are the API server's words against the order and the pod. Empty is nothing. They are not asked of an
	// account that is not there, nor of a capture that has to wait for its turn.
	Account      Seen[bool]
	RightLacking Seen[string]
	OrderRefused Seen[string]
	PodRefused   Seen[string]
	// Rules of the user's own, if the settings name some.
	Rules Seen[Rules]
	// CustomData is the copy that the settings name, if they do.
	CustomData Seen[CustomData]
	// MayDelete tells whether the asking process may delete pods, if a drain is to end with that.
	MayDelete Seen[bool]
	// MayDeleteNode tells whether it may delete Nodes, if the donor does not return.
	MayDeleteNode Seen[bool]

	// Leaving is what a donor that does not return takes with it, if this one does not.
	Leaving Seen[Leaving]

	// Cloud is what the provider's preflight refuses, and Recipe the pool as it is.
	Cloud  Seen[[]cloud.Refusal]
	Recipe Seen[cloud.Pool]
	// Images that the pool's instances were built from; the zero value where they are far too few to matter.
	Images Seen[Images]
}

// Other is another Prototype, with its pool; that is empty where nobody can tell it.
type Other struct {
	Prototype *v1alpha1.Prototype
	Pool      cloud.PoolID
}

// Donor is the Node of the donor's name.
type Donor struct {
	// Node is nil if there is none.
	Node *corev1.Node
	// Replaced: it is another instance's by now.
	Replaced bool
}

// Surroundings are the donor's pool as the nodes tell it.
type Surroundings struct {
	// Of is the pool that the donor's Node says; without pool and reason if the Node has gone meanwhile.
	Of cloud.Membership
	// OfName is that pool's name.
	OfName string
	// Peers are the other nodes of the pool that was decided about.
	Peers []corev1.Node
	// Reserved are the peers whose reservation a Lease confirms, by UID. Nil if the Leases may not be read: the Nodes are believed.
	Reserved map[types.UID]bool
}

// Pods of the donor that speak against a drain, each a few words.
type Pods struct {
	// Stuck can't be evicted without force.
	Stuck []string
	// Protected ask not to be evicted.
	Protected []string
}

// Rules is what is the matter with the user's own rules.
type Rules struct {
	// Missing: there is no such ConfigMap.
	Missing bool
	// Wrong with them; empty if nothing is.
	Wrong string
}

// CustomData is what is the matter with the copy of customData.
type CustomData struct {
	// Missing says what is not there, and what to do; nil if it is there.
	Missing *cloud.Refusal
	// Needed: the recipe still has what the copy is of.
	Needed bool
}

// Images is from how many images a pool was built.
type Images struct {
	Spread imagecount.Count
	// Names of the nodes by instance, as far as a sentence needs them.
	Names map[cloud.InstanceID]string
}

// name of an instance's node; the instance's ID stands for one that has none.
func (i Images) name(id cloud.InstanceID) string {
	if name, found := i.Names[id]; found {
		return name
	}
	return string(id)
}

// Told is what is to be said of the images, as the refusal of a pool that has too many.
func (i Images) Told(pool string, recipe cloud.Recipe) cloud.Refusal {
	return i.Spread.Told(pool, recipe, i.name)
}
