package rebuild

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/rebuild/plan"
)

const (
	// askEvery is how often the cloud is asked about a node in a rebuild; askSeldom, about a failed node that needs a
	// person.
	askEvery  = 20 * time.Second
	askSeldom = 5 * time.Minute
)

// Advance moves a reserved node one step on. A temporary failure is a step that waits, not an error. An error that ends
// the rebuild of the node comes with its step.
func (r *Replacement) Advance(ctx context.Context, name string) (Step, error) {
	if err := r.begin(); err != nil {
		return Step{Node: name}, err
	}
	step, err := r.rebuildOf(name).advance(ctx)
	switch {
	case err == nil:
		return Step{name, step}, nil
	case ctx.Err() != nil:
		return Step{name, step}, ctx.Err()
	case passes(err):
		return Step{name, waiting("waits: " + why(err))}, nil
	}
	return Step{name, step}, fmt.Errorf("node %s: %w", name, err)
}

// why returns the text of a temporary failure. The API server's text for a conflict only repeats the node's name.
func why(err error) string {
	if apierrors.IsConflict(err) {
		return "another client wrote to the node at the same time"
	}
	return err.Error()
}

func (w *nodeRebuild) advance(ctx context.Context) (plan.Step, error) {
	if err := w.observe(ctx); err != nil {
		return plan.Step{}, err
	}
	name := w.facts.Name
	step := plan.Next(w.facts)
	if step.Do != plan.Ask {
		return w.act(ctx, step)
	}
	if !w.due() {
		return waiting(""), nil
	}
	if !w.facts.Asked {
		w.of.unannounced[name] = true
		if err := w.noteAsked(ctx); err != nil {
			return plan.Step{}, err
		}
	}
	w.of.askedAt[name] = w.of.Now()
	if err := w.ask(ctx); err != nil {
		return plan.Step{}, err
	}
	if begun := w.facts.Answer == plan.Working || w.facts.Answer == plan.Complete; begun && w.of.unannounced[name] {
		delete(w.of.unannounced, name)
		w.of.event(w.node, corev1.EventTypeNormal, "Rebuilding", "node %s is rebuilt from version %s in place of %s", name, w.of.To, w.of.From)
	}
	return w.act(ctx, plan.Next(w.facts))
}

// due reports whether to ask the cloud now. A node that seems to be back is due at once.
func (w *nodeRebuild) due() bool {
	pause := askEvery
	if w.of.Policy != nil && w.noted() {
		pause = askSeldom
	}
	last, asked := w.of.askedAt[w.node.Name]
	return !asked || w.facts.Ready && w.facts.Rebooted || w.of.Now().Sub(last) >= pause
}

// noteAsked records the coming request to the cloud. From then on no client may return the node unrebuilt.
func (w *nodeRebuild) noteAsked(ctx context.Context) error {
	now, asked := metav1.NewTime(w.of.Now()), *w.held
	rebuild := *w.held.Rebuild
	rebuild.AskedAt = &now
	asked.Rebuild = &rebuild
	written, err := w.of.reservations().Note(ctx, w.node, asked)
	if err != nil {
		return err
	}
	w.node, w.held = written, &asked
	return nil
}

// act does a step.
func (w *nodeRebuild) act(ctx context.Context, step plan.Step) (plan.Step, error) {
	var err error
	switch step.Do {
	case plan.Wait, plan.Take, plan.Ask:
	case plan.Cordon:
		err = node.Cordon(ctx, w.of.Kube, w.node)
	case plan.Evict:
		var blocked []node.BlockedPod
		if blocked, err = node.Evict(ctx, w.of.Kube, w.pods, w.of.Drain, step.Hard); len(blocked) > 0 {
			step.Says, step.Blocked = "cannot be drained yet: "+blocked[0].String(), true
		}
	case plan.Release:
		err = w.release(ctx)
	case plan.ReturnToService:
		err = w.giveBack(ctx, step)
	case plan.Keep:
		step, err = w.recordNeedsPerson(ctx, step)
	case plan.Drop:
		w.of.leave(w.facts.Name, step)
	}
	switch {
	case err != nil:
		return plan.Step{}, err
	case step.Refusal != nil:
		return step, w.refused
	}
	return step, nil
}

// release returns a rebuilt node to service.
func (w *nodeRebuild) release(ctx context.Context) error {
	err := w.of.reservations().Release(ctx, w.node, *w.held, &node.Marks{
		Labels:      map[string]string{v1alpha1.VersionLabel: v1alpha1.VersionLabelValue(w.of.To)},
		Annotations: map[string]*string{v1alpha1.NotRebuiltAnnotation: nil},
	})
	if err != nil {
		return err
	}
	w.of.event(w.node, corev1.EventTypeNormal, "Rebuilt", "node %s runs version %s and is back in service", w.node.Name, w.of.To)
	w.of.leave(w.node.Name, plan.Step{})
	return nil
}

// giveBack returns an unrebuilt node to service, and annotates the reason if the reason concerns the node.
func (w *nodeRebuild) giveBack(ctx context.Context, step plan.Step) error {
	marks := &node.Marks{}
	if step.Refusal.Reason != plan.RecipeChanged {
		text, err := w.failure(step)
		if err != nil {
			return err
		}
		marks.Annotations = map[string]*string{v1alpha1.NotRebuiltAnnotation: &text}
	}
	if err := w.of.reservations().Release(ctx, w.node, *w.held, marks); err != nil {
		return err
	}
	w.of.event(w.node, corev1.EventTypeWarning, "NotRebuilt", "node %s, which runs version %s, %s", w.node.Name, w.of.From, step.Refusal.What())
	w.of.leave(w.node.Name, step)
	return nil
}

// recordNeedsPerson records once that the node stays reserved and a person must look.
func (w *nodeRebuild) recordNeedsPerson(ctx context.Context, step plan.Step) (plan.Step, error) {
	if w.noted() && w.of.Policy != nil {
		return waiting(""), nil
	}
	text, err := w.failure(step)
	if err != nil {
		return step, err
	}
	if err := node.Mark(ctx, w.of.Kube, w.node, map[string]*string{v1alpha1.NotRebuiltAnnotation: &text}); err != nil {
		return step, err
	}
	w.of.event(w.node, corev1.EventTypeWarning, "NotRebuilt", "node %s %s", w.node.Name, step.Refusal.What())
	if w.of.Policy == nil {
		w.of.leave(w.node.Name, step)
	}
	return step, nil
}

// noted reports whether the Node already has the failure of this rebuild.
func (w *nodeRebuild) noted() bool {
	failed := v1alpha1.NotRebuiltOf(w.node.Annotations)
	return failed != nil && w.held.Rebuild.AskedAt != nil && failed.To == w.facts.To && !failed.At.Before(w.held.Rebuild.AskedAt)
}

// failure returns the annotation of a node that was not rebuilt.
func (w *nodeRebuild) failure(step plan.Step) (string, error) {
	at := metav1.NewTime(w.of.Now())
	failed := v1alpha1.NotRebuilt{To: w.of.To, Reason: step.Refusal.Reason, Message: step.Refusal.What(), Attempts: 1, At: at}
	if before := v1alpha1.NotRebuiltOf(w.node.Annotations); before != nil && before.To == w.of.To {
		failed.Attempts = before.Attempts + 1
	}
	failed.Next = metav1.NewTime(at.Add(w.of.Policy.backoff(failed.Attempts)))
	text, err := json.Marshal(failed)
	return string(text), err
}

// maxBackoff is the longest backoff.
const maxBackoff = 24 * time.Hour

// backoff is how long a policy leaves a node alone after so many failures in a row.
func (p *Policy) backoff(attempts int) time.Duration {
	wait := v1alpha1.DefaultBackoff
	if p != nil {
		wait = p.Backoff
	}
	for range attempts - 1 {
		if wait >= maxBackoff {
			break
		}
		wait = min(2*wait, maxBackoff)
	}
	return wait
}

// leave removes a node from the nodes in progress.
func (r *Replacement) leave(name string, step plan.Step) {
	delete(r.roster.taken, name)
	delete(r.askedAt, name)
	delete(r.unannounced, name)
	r.roster.freed = true
	if step.Refusal != nil {
		r.failed[name] = *step.Refusal
	}
}
