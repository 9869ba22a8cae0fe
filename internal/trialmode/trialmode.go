// Package trialmode finds the mode for trials of a pool's versions if the settings name no mode.
package trialmode

import (
	"context"
	"slices"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// impossible are the permanent reasons against a mode in a pool. Permissions or repairs do not help; another mode may
// be possible.
var impossible = []string{cloud.PromotionRemoves, cloud.PoolNotCopyable, cloud.PoolAtMaximum, cloud.TrialBesideOnly}

// presentCopy represents a copy of customData with unknown content: a preflight needs only its presence.
var presentCopy = []byte("#cloud-config\n")

// Find returns the trial mode for a version of the pool under the settings. The mode of the settings has precedence.
// Otherwise Find prefers TrialApart if the promotion removes the bootstrap, or if the settings name a copy of customData.
// Else Find prefers TrialInPool. Find takes the other mode if the preferred mode is impossible.
//
// If no mode is possible, or after an error, Find returns the preferred mode, so that the preflight explains the
// problem.
func Find(ctx context.Context, provider cloud.Provider, pool cloud.PoolID, version string, s v1alpha1.Settings) (v1alpha1.TrialMode, error) {
	if s.Trial.Mode != "" {
		return s.Trial.Mode, nil
	}
	removes := s.Profile().Traits().RemovesBootstrap
	modes := []v1alpha1.TrialMode{v1alpha1.TrialInPool, v1alpha1.TrialApart}
	var customData []byte
	if s.Recipe.CustomDataFrom != nil {
		customData = presentCopy
	}
	if removes || customData != nil {
		slices.Reverse(modes)
	}
	for _, mode := range modes {
		refusals, err := provider.PreflightTrial(ctx, cloud.TrialSpec{
			ImageRef: cloud.ImageRef{Pool: pool, Version: version}, InPool: mode == v1alpha1.TrialInPool, RemoveBootstrap: removes, CustomData: customData,
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

// NeedsCustomData reports whether the trial node of the settings needs a copy of customData.
func NeedsCustomData(ctx context.Context, provider cloud.Provider, version cloud.ImageRef, s v1alpha1.Settings) (bool, error) {
	removes := s.Profile().Traits().RemovesBootstrap
	if removes || s.Trial.Mode != v1alpha1.TrialApart {
		return false, nil
	}
	refusals, err := provider.PreflightTrial(ctx, cloud.TrialSpec{ImageRef: version})
	return slices.ContainsFunc(refusals, func(r cloud.Refusal) bool { return r.Reason == cloud.PoolNotCopyable }), err
}
