package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/plan"
)

// errOutdated is returned by a pass with a Prototype of the last pass that has changed since.
var errOutdated = errors.New("the Prototype has changed")

// guarded are waits, and actions for which a Prototype of the last pass suffices. The watch has seen no other version, and
// the write of the Prototype fails if the Prototype has changed.
var guarded = []plan.Action{
	plan.Wait, plan.WatchTrial, plan.Adopt, plan.Believe, plan.Return, plan.Succeed, // the first effect is the write of the Prototype
	plan.Order,                   // no pod follows without the write, and the Prototype owns the NodeOrder
	plan.Unprotect, plan.Release, // the Node, read in this pass, has the reservation, and each course releases the donor
}

// isGuarded reports whether a Prototype of the last pass suffices for the decision. The pod of a NodeOrder is deleted by its UID.
// A list of all Prototypes, or the answer to a recent write, is as good as a read.
func (r prototypes) isGuarded(w *observed, do plan.Action) bool {
	if do == plan.DeletePod {
		return w.facts.Touched && !w.facts.Failed && !w.facts.Deleting
	}
	if do == plan.Reserve {
		return w.isListed
	}
	if do == plan.Evict {
		at, _ := r.statusWrites.Load(w.p.UID)
		written, found := at.(time.Time)
		return found && r.now().Sub(written) <= maxFactAge
	}
	return slices.Contains(guarded, do)
}

func (r prototypes) get(ctx context.Context, name string) (*v1alpha1.Prototype, error) {
	p := &v1alpha1.Prototype{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return nil, fmt.Errorf("read prototype %s: %w", name, err)
	}
	return p, nil
}

// store keeps the Prototype for the next pass, if a watch can confirm its version.
func (r prototypes) store(p *v1alpha1.Prototype) {
	if r.Watched != nil {
		r.lastPrototypes.Store(p.Name, p)
	}
}

// takeLast returns the Prototype of the last pass if the watch has seen no other version; else nil.
func (r prototypes) takeLast(ctx context.Context, name string) *v1alpha1.Prototype {
	left, _ := r.lastPrototypes.LoadAndDelete(name)
	if p, found := left.(*v1alpha1.Prototype); found && r.Watched(ctx, name) == p.ResourceVersion {
		return p
	}
	return nil
}

// isUnchanged reads the Prototype, and compares the versions.
func (r prototypes) isUnchanged(ctx context.Context, p *v1alpha1.Prototype) bool {
	now, err := r.get(ctx, p.Name)
	return err == nil && now.ResourceVersion == p.ResourceVersion
}
