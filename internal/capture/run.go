package capture

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/process"
)

// Pass observes once, and then does at most one action: it writes an intent into the record, or has one effect that is
// recorded. After an error, the Result has the delay of the retry, and the status has the obstacle.
func (e *Engine) Pass(ctx context.Context, name string) (Result, error) {
	p := &v1alpha1.Prototype{}
	err := e.Client.Get(ctx, client.ObjectKey{Name: name}, p)
	switch {
	case apierrors.IsNotFound(err):
		return Result{Done: true}, nil
	case err != nil:
		return Result{After: e.retries.delay(name, err, e.now())}, fmt.Errorf("read prototype %s: %w", name, err)
	case p.Status.Terminal():
		e.notifyObserver(ctx, p, p)
		return e.removeFinalizer(ctx, p)
	case len(p.Unreadable) > 0 && p.DeletionTimestamp == nil:
		return e.refuseUnreadable(ctx, p), nil
	}
	r := e.rooms()
	before, w := p.DeepCopy(), fromPrototype(p, r.readRecord(p))
	result, err := e.continueOrRefuse(ctx, r, w)
	switch {
	case err != nil:
		err = errors.Join(err, r.actWithoutCloud(ctx, w.unseen(r.readRecord(p)), err))
		setStalled(p, err, e.now())
	case !result.undecided:
		clearStalled(p)
	}
	reportCloudWait(p, err, e.retries.failing(name).since, e.now())
	if statusErr := r.store.writeStatus(ctx, w); statusErr != nil {
		err = errors.Join(err, statusErr)
	} else {
		e.notifyObserver(ctx, before, p)
		r.events.announceChanges(before, p)
	}
	if err != nil {
		return Result{After: e.retries.delay(name, err, e.now())}, err
	}
	if !result.undecided {
		e.retries.reset(name)
	}
	if p.Status.Terminal() {
		return e.removeFinalizer(ctx, p)
	}
	return result, nil
}

// continueOrRefuse continues the capture. It ends, and touches nothing, if a backup has restored the Prototype, or if the pending
// patches of a pioneer failed before.
func (e *Engine) continueOrRefuse(ctx context.Context, r rooms, w *pass) (Result, error) {
	if v1alpha1.ReplacesDonor(w.p) {
		return Result{}, fmt.Errorf("prototype %s: %w", w.p.Name, errEarlierVersion)
	}
	if why := restoredFrom(w.p); why != "" && w.p.DeletionTimestamp == nil {
		w.record = v1alpha1.Record{} // of another object
		r.patchSets.refuse(w, cloud.Refuse(string(plan.RecordLost), why,
			fmt.Sprintf("delete the Prototype (`kubectl delete prototype %s`), then capture a node again", w.p.Name)))
		return Result{}, nil
	}
	if begins, err := r.patchSets.pass(ctx, w); err != nil || !begins {
		return Result{After: patchSetPoll}, err
	}
	return e.observeAndAct(ctx, r, w)
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
		return fmt.Sprintf("prototype %s is a copy of another object (UID %s in annotation %s), as after the restore of a backup",
			p.Name, mark, v1alpha1.BegunAnnotation)
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

// EarlierVersion is the reason of condition Stalled for a capture of an earlier version that replaces its donor by another node.
const EarlierVersion = "EarlierVersion"

// errEarlierVersion is returned for such a capture. Kamino changes neither the node nor the pool.
var errEarlierVersion = errors.New("an earlier version of Kamino began to replace the node or to grow its pool, and this version never removes a node: " +
	"install the earlier version again, and let it end the capture")

// Unreadable is the reason of condition Stalled, and of an event, for a stored Prototype with fields that cannot be
// decoded.
const Unreadable = "Unreadable"

// refuseUnreadable reports that the capture of a partly unreadable Prototype does not continue. After its deletion the
// donor is released as usual.
func (e *Engine) refuseUnreadable(ctx context.Context, p *v1alpha1.Prototype) Result {
	before, w := p.DeepCopy(), fromPrototype(p, v1alpha1.Record{})
	message := fmt.Sprintf(
		"this version of Kamino cannot read the stored Prototype: %s. The capture does not continue; stop the capture with `kamino cancel %s`",
		p.Unreadable, p.Name)
	setCondition(p, e.now(), v1alpha1.ConditionStalled, metav1.ConditionTrue, Unreadable, message)
	r := e.rooms()
	err := r.store.writeStatus(ctx, w)
	r.events.announceChanges(before, p)
	if _, logged := e.unreadable.LoadOrStore(p.UID, true); !logged {
		e.Log.Info("cannot read a Prototype", "prototype", p.Name, "why", message, "statusWritten", err == nil)
	}
	return Result{After: maxBackOff}
}

// observeAndAct observes once, and does the action that package plan decides.
func (e *Engine) observeAndAct(ctx context.Context, r rooms, w *pass) (Result, error) {
	ctx = cloud.WithReadCache(ctx)
	if w.record.Reservation == nil && w.record.LeaveBoot() == "" {
		if !e.reserving.TryLock() {
			if isUnbegun(w.p) { // a worker that waits here could report other captures
				reportDecisionWait(w.p, e.now())
				return Result{After: idlePollInterval.shortest, undecided: true}, nil
			}
			e.reserving.Lock()
		}
		defer e.reserving.Unlock()
	}
	if err := r.observe(ctx, w); err != nil {
		return Result{}, err
	}
	decision := plan.Next(w.facts)
	report(w, decision, e.now())
	e.Log.V(1).Info("decided", "prototype", w.p.Name, "decision", decision.String())
	repeated := e.retries.repeated(w.p.Name, decision)
	if decision.Do == plan.Wait {
		return Result{After: pollDelay(w.p, decision.Why, e.now())}, nil
	}
	if err := r.act(ctx, w, decision); err != nil {
		return Result{}, r.failures.failFinally(w, decision, err)
	}
	return Result{After: max(repeated, delayAfter(w.p, w.record.Trial, decision.Do, e.now()))}, nil
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
		record := e.rooms().readRecord(p)
		if !record.DonorGone && (record.LeaveBoot() == "" || record.Reservation != nil) { // otherwise forget has dropped the Leases
			if err := e.reservations().DropOf(ctx, p.UID); err != nil {
				return Result{After: e.retries.delay(p.Name, err, e.now())}, err
			}
		}
		if err := e.Client.Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return Result{After: e.retries.delay(p.Name, err, e.now())}, fmt.Errorf("remove finalizer of prototype %s: %w", p.Name, err)
		}
	}
	e.retries.forget(p.Name)
	return Result{Done: true}, nil
}

// Result of a pass.
type Result struct {
	// Done: the Prototype is terminal or gone.
	Done bool
	// After is the delay before the next pass; zero means at once.
	After time.Duration
	// undecided: the pass has looked at nothing.
	undecided bool
}
