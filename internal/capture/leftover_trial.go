package capture

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/trial"
)

// strayTrials lists the trials of the pools in the cloud that carry the UID of a Prototype. A trial without a UID
// cannot be matched, and stays.
func (r leftovers) strayTrials(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error) {
	specs, err := r.tried(ctx, pools)
	if err != nil {
		return nil, err
	}
	var found []reservations.Leftover
	for _, spec := range specs {
		if uid := spec.Tags[cloud.TagUID]; uid != "" {
			found = append(found, reservations.Leftover{Kind: reservations.Trial, Name: spec.Name, Prototype: spec.Tags[cloud.TagPrototype], UID: types.UID(uid), Unmarked: spec.Origin == cloud.Unmarked})
		}
	}
	return found, nil
}

func (r leftovers) tried(ctx context.Context, pools []cloud.PoolID) ([]cloud.TrialSpec, error) {
	if len(pools) == 0 {
		return nil, nil
	}
	return r.Cloud.Trials(ctx, pools...)
}

// endTrial continues the end of a trial without an active capture: objects on its Nodes, and objects in the cloud.
func (r leftovers) endTrial(ctx context.Context, l reservations.Leftover, pools []cloud.PoolID) error {
	specs, err := r.tried(ctx, pools)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		if spec.Name == l.Name && spec.Tags[cloud.TagUID] == string(l.UID) {
			return r.endTrialOf(ctx, l, spec)
		}
	}
	return nil
}

func (r leftovers) endTrialOf(ctx context.Context, l reservations.Leftover, spec cloud.TrialSpec) error {
	seen, err := r.Cloud.Trial(ctx, spec)
	if err != nil {
		return err
	}
	_, err = r.Cloud.EndTrial(ctx, spec)
	if r.TrialObserver == nil {
		return err
	}
	p := &v1alpha1.Prototype{}
	p.Name, p.UID = l.Prototype, l.UID
	_, cleanErr := r.TrialObserver.Clean(ctx, trial.Subject{Prototype: p, Pool: spec.Pool, Spec: spec, Instances: seen.Instances})
	return errors.Join(err, cleanErr)
}
