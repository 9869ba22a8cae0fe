package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
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
	// TrialObserver inspects trial nodes. If nil, a Prototype with a trial is refused.
	TrialObserver TrialObserver
	// Unhealthy returns why a Ready node is not healthy in service, such as a DaemonSet without a Ready pod; empty without a
	// problem. ignore has DaemonSets as namespace/name. If nil, Ready suffices for a pioneer.
	Unhealthy func(ctx context.Context, node string, ignore []string) (string, error)
	// Now is the clock. time.Now if nil.
	Now func() time.Time
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
	// failedPasses are the consecutive failed passes by name of the Prototype, for the delay of retries.
	failedPasses sync.Map
}

// Result of a pass.
type Result struct {
	// Done: the Prototype is terminal or gone.
	Done bool
	// After is the delay before the next pass; zero means at once.
	After time.Duration
}

// Pass observes once, and then does at most one action: it writes an intent into the record, or has one effect that is
// recorded. After an error, the Result has the delay of the retry, and the status has the obstacle.
func (e *Engine) Pass(ctx context.Context, name string) (Result, error) {
	p := &v1alpha1.Prototype{}
	err := e.Client.Get(ctx, client.ObjectKey{Name: name}, p)
	switch {
	case apierrors.IsNotFound(err):
		return Result{Done: true}, nil
	case err != nil:
		return Result{After: e.backOff(name, err)}, fmt.Errorf("read prototype %s: %w", name, err)
	case p.Status.Terminal():
		e.notifyObserver(ctx, p, p)
		return e.removeFinalizer(ctx, p)
	case len(p.Unreadable) > 0 && p.DeletionTimestamp == nil:
		return e.refuseUnreadable(ctx, p), nil
	}
	before, w := p.DeepCopy(), fromPrototype(p, e.readRecord(p))
	result, err := continueOrRefuse(ctx, e, w)
	switch {
	case err != nil && p.Spec.AwaitsDonor():
		setStalled(p, err, e.now())
	case err != nil:
		err = errors.Join(err, e.actWithoutCloud(ctx, w.unseen(e.readRecord(p)), err))
		setStalled(p, err, e.now())
	default:
		clearStalled(p)
	}
	if statusErr := e.writeStatus(ctx, w); statusErr != nil {
		err = errors.Join(err, statusErr)
	} else {
		e.notifyObserver(ctx, before, p)
		eventRecorder{e}.announceTrouble(before, p)
		eventRecorder{e}.announceIgnoredReport(before, p)
		eventRecorder{e}.announceReversible(before, p)
		eventRecorder{e}.announceDonor(before, p)
		eventRecorder{e}.announceAwaiting(before, p)
	}
	if err != nil {
		return Result{After: e.backOff(name, err)}, err
	}
	e.failedPasses.Delete(name)
	if p.Status.Terminal() {
		return e.removeFinalizer(ctx, p)
	}
	return result, nil
}

// continueOrRefuse continues the capture, unless a backup has restored the Prototype: the capture then ends and touches
// nothing.
func continueOrRefuse(ctx context.Context, e *Engine, w *pass) (Result, error) {
	p := w.p
	if why := restoredFrom(p); why != "" && p.DeletionTimestamp == nil {
		w.record = v1alpha1.Record{} // of another object
		patchSetCheck{e}.refuse(w, cloud.Refuse(string(plan.RecordLost), why,
			fmt.Sprintf("delete the Prototype (`kubectl delete prototype %s`), then capture a node again", p.Name)))
		return Result{}, nil
	}
	return patchSetCheck{e}.checkAndAct(ctx, w)
}

// restoredFrom explains why the Prototype is not the object that began the capture, or has lost its record after the end;
// empty otherwise. Backups keep annotations, and not always the status or the UID.
func restoredFrom(p *v1alpha1.Prototype) string {
	mark, marked := p.Annotations[v1alpha1.BegunAnnotation]
	record := p.Status.Record
	switch {
	case record != nil && record.UID == p.UID:
		return ""
	case record != nil && !marked:
		return fmt.Sprintf("the record in the status of prototype %s belongs to another object (UID %s), as after the restore of a backup", p.Name, record.UID)
	case marked && mark != string(p.UID):
		return fmt.Sprintf("prototype %s is a copy of another object (UID %s in annotation %s), as after the restore of a backup", p.Name, mark, v1alpha1.BegunAnnotation)
	case marked && !controllerutil.ContainsFinalizer(p, v1alpha1.CaptureFinalizer):
		return fmt.Sprintf("prototype %s has lost the status of its capture", p.Name)
	}
	return ""
}

// Run makes passes until the Prototype is terminal or gone, or the context ends. Errors are logged and retried: a held
// donor is never abandoned.
func (e *Engine) Run(ctx context.Context, name string) error {
	for {
		result, err := e.Pass(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			e.Log.Error(err, "pass failed", "prototype", name, "retryAfter", result.After)
		}
		if result.Done {
			return nil
		}
		if err := process.Wait(ctx, result.After); err != nil {
			return err
		}
	}
}

// Unreadable is the reason of condition Stalled, and of an event, for a stored Prototype with fields that cannot be
// decoded.
const Unreadable = "Unreadable"

// refuseUnreadable reports that the capture of a partly unreadable Prototype does not continue. After its deletion the
// donor is released as usual.
func (e *Engine) refuseUnreadable(ctx context.Context, p *v1alpha1.Prototype) Result {
	before, w := p.DeepCopy(), fromPrototype(p, v1alpha1.Record{})
	message := fmt.Sprintf("this version of Kamino cannot read the stored Prototype: %s. The capture does not continue; stop the capture with `kamino cancel %s`", p.Unreadable, p.Name)
	setCondition(p, e.now(), v1alpha1.ConditionStalled, metav1.ConditionTrue, Unreadable, message)
	err := e.writeStatus(ctx, w)
	eventRecorder{e}.announceTrouble(before, p)
	if _, logged := e.unreadable.LoadOrStore(p.UID, true); !logged {
		e.Log.Info("cannot read a Prototype", "prototype", p.Name, "why", message, "statusWritten", err == nil)
	}
	return Result{After: maxBackOff}
}

// observeAndAct observes once, and does the action that package plan decides.
func (e *Engine) observeAndAct(ctx context.Context, w *pass) (Result, error) {
	ctx = cloud.WithReadCache(ctx)
	if growing, err := (poolGrowth{e}).lacksDonor(ctx, w); err != nil {
		return Result{}, err
	} else if growing {
		return poolGrowth{e}.observeGrowthAndAct(ctx, w)
	}
	if w.record.Reservation == nil && w.record.LeaveBoot() == "" {
		e.reserving.Lock()
		defer e.reserving.Unlock()
	}
	if err := e.observe(ctx, w); err != nil {
		return Result{}, err
	}
	decision := plan.Next(w.facts)
	report(w, decision, e.now())
	e.Log.V(1).Info("decided", "prototype", w.p.Name, "decision", decision.String())
	if decision.Do == plan.Wait {
		return Result{After: pollDelay(w.p, decision.Why, e.now())}, nil
	}
	if err := e.act(ctx, w, decision); err != nil {
		return Result{}, failures{e}.failFinally(w, decision, err)
	}
	return Result{After: delayAfter(w.p, w.record.Trial, decision.Do, e.now())}, nil
}

func (e *Engine) notifyObserver(ctx context.Context, before, after *v1alpha1.Prototype) {
	if e.Observe != nil {
		e.Observe(ctx, before, after)
	}
}

// removeFinalizer removes the finalizer of an ended Prototype. A Lease may exist without a reservation on the Node,
// after a crash between the two writes.
func (e *Engine) removeFinalizer(ctx context.Context, p *v1alpha1.Prototype) (Result, error) {
	before := p.DeepCopy()
	if controllerutil.RemoveFinalizer(p, v1alpha1.CaptureFinalizer) {
		if record := e.readRecord(p); !record.DonorGone && (record.LeaveBoot() == "" || record.Reservation != nil) { // otherwise forget has dropped the Leases
			if err := e.reservations().DropOf(ctx, p.UID); err != nil {
				return Result{After: e.backOff(p.Name, err)}, err
			}
		}
		if err := e.Client.Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return Result{After: e.backOff(p.Name, err)}, fmt.Errorf("remove finalizer of prototype %s: %w", p.Name, err)
		}
	}
	e.failedPasses.Delete(p.Name)
	return Result{Done: true}, nil
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

func (e *Engine) namespace() string { return cmp.Or(e.Namespace, v1alpha1.DefaultNamespace) }

// reservations are the Leases of held nodes.
func (e *Engine) reservations() node.Reservations {
	return node.Reservations{Kube: e.Kube, Namespace: e.namespace(), Now: e.now}
}

// podNamespace is the pod namespace of new captures. Captures in progress keep their own: podNamespaceOf.
func (e *Engine) podNamespace() string {
	return cmp.Or(e.PodNamespace, v1alpha1.DefaultGeneralizeNamespace)
}
