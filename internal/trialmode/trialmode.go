// Package trialmode finds where a pool's versions can be tried, for whoever decides about a capture and has not been told.
package trialmode

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// impossible are reasons for which no trial of a mode can be had in a pool, whatever is granted or mended. Another mode may do.
var impossible = []string{cloud.PromotionRemoves, cloud.PoolNotCopyable, cloud.PoolAtMaximum, cloud.TrialBesideOnly}

// Find tells where a version of the pool is tried that is captured with the settings: where they say; else apart if its
// promotion takes the bootstrap out of the recipe, since nothing is missing beside the pool then, and in the pool if it does not;
// else in the way that is left. Where neither can be had it is the one that would come first, so that the preflight says
// why; and Off where the cloud has no way to try anything. With an error it is the one that would come first, too.
func Find(ctx context.Context, provider cloud.Provider, pool cloud.PoolID, version string, s v1alpha1.Settings) (v1alpha1.TrialMode, error) {
	if s.Trial.Mode != "" {
		return s.Trial.Mode, nil
	}
	trialist, able := cloud.As[cloud.Trialist](provider)
	if !able {
		return v1alpha1.TrialOff, nil
	}
	removes := s.Profile().Traits().RemovesBootstrap
	modes := []v1alpha1.TrialMode{v1alpha1.TrialInPool, v1alpha1.TrialApart}
	if removes {
		slices.Reverse(modes)
	}
	for _, mode := range modes {
		refusals, err := trialist.PreflightTrial(ctx, cloud.TrialSpec{
			ImageRef: cloud.ImageRef{Pool: pool, Version: version}, InPool: mode == v1alpha1.TrialInPool, RemoveBootstrap: removes,
		})
		if err != nil {
			return modes[0], err
		}
		if !slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return slices.Contains(impossible, r.Reason) }) {
			return mode, nil
		}
	}
	return modes[0], nil
}
