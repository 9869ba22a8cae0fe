package capture

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/process"
)

// Engine runs captures. Client must read from the API server without a cache, because passes decide on the objects
// read.
type Engine struct {
	Client client.Client        // Prototypes, Secrets
	Kube   kubernetes.Interface // nodes, pods, evictions
	Cloud  cloud.Provider
	// Namespace of saved recipes and of the reservations' Leases. DefaultNamespace if empty.
	Namespace string
	// PodNamespace is the namespace of the privileged generalize pods. DefaultGeneralizeNamespace if empty.
	PodNamespace string
	// Image of the generalize pod, unless the settings name an image.
	Image string
	// AllowedImages are further images that the settings may name: an exact reference, a repository, or a prefix
	// ("x/").
	AllowedImages []string
	// CheckRules returns errors in a user's own rules for a profile. If nil, only the pod checks the rules.
	CheckRules func(v1alpha1.Profile, map[string][]byte) error
	// GivenCustomData is a copy of customData that a command received and has not saved yet. Only preflights use the copy.
	GivenCustomData []byte
	// OwnNode is the node of this process; empty outside of the cluster.
	OwnNode string
	// Kured is the kured DaemonSet with the lock that captures respect, as NAMESPACE/NAME. Empty: no lock is respected.
	Kured string
	// Drives: this process will also run the captures that it checks, so the preflight checks its own permissions.
	Drives bool
	// MaxConcurrent limits the captures that hold donors at the same time in the cluster. 1 if zero.
	MaxConcurrent int
	// PolicyConcurrent, if set, returns the limit of the cluster's policies; the larger limit applies. The function
	// must be quick and safe for concurrent use.
	PolicyConcurrent func() int
	// Waves: the version of a policy waits for versions of other pools (see lookWave). Only a process that stays, and tracks joins, sets it.
	Waves bool
	// TrialObserver inspects trial nodes. If nil, a Prototype with a trial is refused.
	TrialObserver TrialObserver
	// Unhealthy returns why a Ready node is not healthy in service, such as a DaemonSet without a Ready pod; empty without a
	// problem. ignore has DaemonSets as namespace/name. If nil, Ready suffices for a pioneer.
	Unhealthy func(ctx context.Context, node string, ignore []string) (string, error)
	// Now is the clock. time.Now if nil.
	Now func() time.Time
	// Sleep waits while a donor's disk is quiet. process.Wait if nil.
	Sleep func(ctx context.Context, d time.Duration) error
	// Recorder of events; must accept notes of any length. If nil, no events are recorded.
	Recorder events.EventRecorder
	// Observe, if set, is called after each pass that reached its status write, with the Prototype before and after.
	// The function must not change either object, must be quick, and must be safe for concurrent use.
	Observe func(ctx context.Context, before, after *v1alpha1.Prototype)
	Log     logr.Logger

	preflights preflights
	// reserving serializes captures from preflight to reservation. Otherwise two captures could reserve in the same
	// pool, or exceed the limit.
	reserving sync.Mutex
	// unreadable are the UIDs of unreadable Prototypes that were already logged.
	unreadable sync.Map
	retries    retries
}

// concurrent is the limit of captures that hold donors at the same time.
func (e *Engine) concurrent() int {
	limit := max(e.MaxConcurrent, 1)
	if e.PolicyConcurrent != nil {
		limit = max(limit, e.PolicyConcurrent())
	}
	return limit
}

func (e *Engine) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

func (e *Engine) sleep(ctx context.Context, d time.Duration) error {
	if e.Sleep == nil {
		return process.Wait(ctx, d)
	}
	return e.Sleep(ctx, d)
}

// reservations are the Leases of held nodes.
func (e *Engine) reservations() node.Reservations {
	return node.Reservations{Kube: e.Kube, Namespace: cmp.Or(e.Namespace, v1alpha1.DefaultNamespace), Now: e.now}
}

// podNamespace is the pod namespace of new captures. Captures in progress keep their own: podNamespaceOf.
func (e *Engine) podNamespace() string {
	return cmp.Or(e.PodNamespace, v1alpha1.DefaultGeneralizeNamespace)
}
