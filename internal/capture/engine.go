package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
)

// Engine carries Prototypes out. Client must read from the API server itself, not from a cache: a pass
// decides on what it reads.
type Engine struct {
	Client client.Client        // Prototypes, Secrets
	Kube   kubernetes.Interface // nodes, pods, evictions
	Cloud  cloud.Provider
	// Namespace of saved recipes, and of the Leases that say who holds which node. DefaultNamespace if empty.
	Namespace string
	// PodNamespace is where the generalize pods run, which are privileged. DefaultGeneralizeNamespace if empty.
	PodNamespace string
	// Image of the generalize pod where the settings name none.
	Image string
	// AllowedImages that the settings may name beside it: exactly, by repository, or what is below one ("x/").
	AllowedImages []string
	// CheckRules says what is wrong with a user's own rules for a profile. Without it the pod finds out.
	CheckRules func(v1alpha1.Profile, map[string][]byte) error
	// OwnNode is the node that this process runs on; empty if it runs on none.
	OwnNode string
	// Kured is the DaemonSet whose lock is respected, as NAMESPACE/NAME; none is if it is empty.
	Kured string
	// Drives: this process will carry out what it is asked about before it is decided, so that its own rights count.
	Drives bool
	// MaxConcurrent captures that may hold donors at once in the cluster. 1 if zero.
	MaxConcurrent int
	// PolicyConcurrent, if set, tells how many the policies of the cluster allow; the larger number counts. It
	// must be quick and safe for concurrent use.
	PolicyConcurrent func() int
	// Tryout looks at trial nodes. Without it nothing is tried, and a Prototype that asks for a trial is refused.
	Tryout Tryout
	// Now is the clock. time.Now if nil.
	Now func() time.Time
	// Recorder of events, which must take notes of any length; none are recorded if nil.
	Recorder events.EventRecorder
	// onFollowUp, if set, is called with each decision that follows an action in the same pass.
	onFollowUp func(ctx context.Context, w *observed, next plan.Decision)
	// Observe, if set, is told of each pass that got as far as its status: the Prototype as the pass read it
	// and as it stands now. It must change neither, be quick, and be safe for concurrent use.
	Observe func(ctx context.Context, before, after *v1alpha1.Prototype)
	// Watched, if set, returns the resourceVersion that the process's watch has heard of last; empty if there is none. A pass that
	// waits takes the Prototype that the last pass left, if that is the version. Before a pass acts it reads the Prototype.
	Watched func(ctx context.Context, name string) string
	Log     logr.Logger

	preflights preflights
	// keptReads are kept by the UID of the Prototype.
	keptReads sync.Map

	// reserving lets one capture at a time go from its preflight to its reservation, so that two cannot
	// both find a pool, or a place in the cluster, free.
	reserving sync.Mutex
	// unreadable are the UIDs of the Prototypes that have been logged as such.
	unreadable sync.Map
	// troubles counts the passes in a row that ended in an error, by Prototype; it only paces retries.
	troubles sync.Map
	// left are the Prototypes as the last pass left them, by name. There are none without Watched.
	left sync.Map
}

// Result of a pass.
type Result struct {
	// Done: the Prototype is terminal or gone, and there is nothing left to do.
	Done bool
	// After is how long to wait before the next pass; zero means at once.
	After time.Duration
}

// Pass looks once, and does what that look suffices for. An error means that the pass did not get through; the
// Result then says when to try again, and the status says what is in the way.
func (e *Engine) Pass(ctx context.Context, name string) (Result, error) {
	if p := prototypesOf(e).takeLeft(ctx, name); p != nil {
		if result, err := e.pass(ctx, p, true); !errors.Is(err, errOutdated) {
			return result, err
		}
	}
	p, err := prototypesOf(e).read(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return Result{Done: true}, nil
	case err != nil:
		return Result{After: e.backOff(name, err)}, err
	}
	return e.pass(ctx, p, false)
}

// pass is a pass over the Prototype. If the last pass left it, it is read again before an action.
func (e *Engine) pass(ctx context.Context, p *v1alpha1.Prototype, isLeft bool) (Result, error) {
	name := p.Name
	if p.Status.Terminal() {
		e.observe(ctx, p, p)
		return e.settle(ctx, p)
	}
	if len(p.Unreadable) > 0 && p.DeletionTimestamp == nil {
		return e.refuseUnreadable(ctx, p), nil
	}
	before := p.DeepCopy()
	result, err := e.step(ctx, p, isLeft)
	switch {
	case errors.Is(err, errOutdated):
		return Result{}, err
	case err != nil:
		err = errors.Join(err, e.unseen(ctx, unlooked(p, ledgerOf(e).readRecord(p)), err))
		noteTrouble(p, err, e.now())
	default:
		noteRecovery(p)
	}
	// The one status write of a pass. A Prototype whose last finalizer is gone takes no status any more.
	if statusErr := ledgerOf(e).writeStatus(ctx, before, p); statusErr != nil {
		err = errors.Join(err, statusErr)
	} else {
		e.observe(ctx, before, p)
		announcerOf(e).announceTrouble(before, p)
		announcerOf(e).announceDisbelief(before, p)
		announcerOf(e).announceWayBack(before, p)
		announcerOf(e).announceDonor(before, p)
		announcerOf(e).announceAwaiting(before, p)
	}
	if err != nil {
		return Result{After: e.backOff(name, err)}, err
	}
	e.troubles.Delete(name)
	if p.Status.Terminal() {
		return e.settle(ctx, p)
	}
	prototypesOf(e).leave(p)
	return result, nil
}

// Run makes passes until the Prototype is terminal or gone, or the context ends. Troubles are logged and
// retried: a capture that holds a donor is never given up on by its driver.
func (e *Engine) Run(ctx context.Context, name string) error {
	for {
		result, err := e.Pass(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			e.Log.Error(err, "pass did not get through", "prototype", name, "retryAfter", result.After)
		}
		if result.Done {
			return nil
		}
		if err := sleep(ctx, result.After); err != nil {
			return err
		}
	}
}

// Unreadable is the reason of condition Stalled, and of an event, where a stored Prototype has fields that cannot be decoded.
const Unreadable = "Unreadable"

// refuseUnreadable says that nothing is done about a Prototype of which a part is missing. One that is deleted ends as each other does:
// its node returns.
func (e *Engine) refuseUnreadable(ctx context.Context, p *v1alpha1.Prototype) Result {
	before := p.DeepCopy()
	message := fmt.Sprintf("this version of Kamino cannot read the stored Prototype: %s; nothing is done about it. Stop it with `kamino cancel %s`", p.Unreadable, p.Name)
	setCondition(p, e.now(), v1alpha1.ConditionStalled, metav1.ConditionTrue, Unreadable, message)
	err := ledgerOf(e).writeStatus(ctx, before, p)
	announcerOf(e).announceTrouble(before, p)
	if _, logged := e.unreadable.LoadOrStore(p.UID, true); !logged {
		e.Log.Info("a Prototype cannot be read", "prototype", p.Name, "why", message, "statusWritten", err == nil)
	}
	return Result{After: maxBackOff}
}

// step is one look, and the decisions that it suffices for: a decision follows another one where the effect in between is known.
func (e *Engine) step(ctx context.Context, p *v1alpha1.Prototype, isLeft bool) (Result, error) {
	record := ledgerOf(e).readRecord(p)
	reserved := func() {}
	if record.Reservation == nil && record.LeaveBoot() == "" {
		e.reserving.Lock()
		reserved = sync.OnceFunc(e.reserving.Unlock)
		defer reserved()
	}
	ctx, w, err := lookFrom(ctx, e, p, record)
	if err != nil {
		e.keptReads.Delete(p.UID)
		if isLeft && !prototypesOf(e).isUnchanged(ctx, p) {
			err = errOutdated
		}
		return Result{}, err
	}
	decision := plan.Next(w.facts)
	if isLeft && !slices.Contains(needNoRead, decision.Do) && !prototypesOf(e).isUnchanged(ctx, p) {
		return Result{}, errOutdated
	}
	for {
		report(w, decision, e.now())
		e.Log.V(1).Info("decided", "prototype", p.Name, "decision", decision.String())
		if decision.Do == plan.Wait {
			return Result{After: pace(p, decision.Why, e.now())}, nil
		}
		before := cloud.ReadCacheOf(ctx).Copy()
		if err := e.act(ctx, w, decision); err != nil {
			e.keptReads.Delete(p.UID)
			return Result{}, endingOf(e).verdictOf(w, decision, err)
		}
		reserved()
		done := decision
		keepReads(before, e, w, done.Do)
		var more bool
		if ctx, decision, more = e.followUp(ctx, w, done); !more {
			return Result{After: paceBehind(p, w.record.Trial, done.Do, e.now())}, nil
		}
	}
}

// lookFrom looks as far as the decision needs it. The effects of the pass belong under the context that it returns.
func lookFrom(ctx context.Context, e *Engine, p *v1alpha1.Prototype, record v1alpha1.Record) (context.Context, *observed, error) {
	ctx, w, err := lookFromReads(ctx, e, p, record)
	if err != nil {
		return ctx, w, err
	}
	next := plan.Next(w.facts)
	if w.leaseLater && slices.Contains(needNote, next.Do) {
		return ctx, w, holdOf(e).confirmNote(ctx, w)
	}
	if !w.nodeLater || onlyWatches(next) {
		return ctx, w, nil
	}
	if err := e.lookNode(ctx, w); err != nil {
		return ctx, nil, err
	}
	if w.held() { // which the record does not say
		w, err = e.look(ctx, p, w.record, nil)
	}
	return ctx, w, err
}

// needNote are the actions before which the Lease must say what the record says: they cannot be undone, or need a way back.
var needNote = []plan.Action{plan.Generalize, plan.Stop, plan.Start, plan.Remove, plan.DeleteNode}

// onlyWatches reports whether the decision changes nothing but a trial that is in progress.
func onlyWatches(d plan.Decision) bool {
	return d.Do == plan.Wait || d.Do == plan.WatchTrial || d.Do == plan.EndTrial
}

// lookFromReads looks, beginning with the reads of earlier passes, and looks at everything where the decision needs that.
func lookFromReads(ctx context.Context, e *Engine, p *v1alpha1.Prototype, record v1alpha1.Record) (context.Context, *observed, error) {
	if reads := e.readsOf(p, record); reads != nil {
		within := reads.look(ctx)
		w, err := e.look(within, p, record, reads)
		if err != nil || reads.suffice(w, plan.Next(w.facts)) {
			return within, w, err
		}
	}
	ctx = cloud.WithReadCache(ctx)
	w, err := e.look(ctx, p, record, nil)
	return ctx, w, err
}

func (e *Engine) observe(ctx context.Context, before, after *v1alpha1.Prototype) {
	if e.Observe != nil {
		e.Observe(ctx, before, after)
	}
}

// settle removes the finalizer of a Prototype that has ended: nothing is left that it would protect. A Lease may be left whose Node
// was never written.
func (e *Engine) settle(ctx context.Context, p *v1alpha1.Prototype) (Result, error) {
	before := p.DeepCopy()
	if controllerutil.RemoveFinalizer(p, v1alpha1.CaptureFinalizer) {
		if record := ledgerOf(e).readRecord(p); record.LeaveBoot() == "" || record.Reservation != nil { // else forget has dropped them
			if err := e.reservations().DropOf(ctx, p.UID); err != nil {
				return Result{After: e.backOff(p.Name, err)}, err
			}
		}
		if err := e.Client.Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return Result{After: e.backOff(p.Name, err)}, fmt.Errorf("remove finalizer of prototype %s: %w", p.Name, err)
		}
	}
	e.troubles.Delete(p.Name)
	e.keptReads.Delete(p.UID)
	return Result{Done: true}, nil
}

// concurrent is how many captures may hold donors at once.
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

// reservations are the Leases that say who holds which node.
func (e *Engine) reservations() node.Reservations {
	return node.Reservations{Kube: e.Kube, Namespace: e.namespace(), Now: e.now}
}

// podNamespace is where the pods of new captures run. One that is under way keeps its own: podNamespaceOf.
func (e *Engine) podNamespace() string {
	return cmp.Or(e.PodNamespace, v1alpha1.DefaultGeneralizeNamespace)
}
