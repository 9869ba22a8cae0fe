// Package estimate estimates the duration of a capture from earlier successful captures. The package is pure.
package estimate

import (
	"cmp"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// Step is the estimated duration of one step of a capture.
type Step struct {
	Phase v1alpha1.Phase `json:"phase"`
	// Seconds is the median of the captures that had the step.
	Seconds int64 `json:"seconds"`
}

// Estimate is the estimated duration of a capture.
type Estimate struct {
	// Captures is the number of captures in the estimate. Zero: nothing is known.
	Captures int `json:"captures"`
	// Steps are in the order of a capture. Seconds is the sum of all steps.
	Steps   []Step `json:"steps,omitempty"`
	Seconds int64  `json:"seconds"`
	// OutOfServiceSeconds is how long the donor is out of service; zero for captures by copy.
	OutOfServiceSeconds int64 `json:"outOfServiceSeconds"`
	// WorkshopSeconds is how long a capture by copy keeps its donor reserved, and runs a workshop.
	WorkshopSeconds int64 `json:"workshopSeconds,omitempty"`
	// Bill is what the cloud bills for a capture by copy; nil for a capture in place, and before the first capture by copy.
	Bill *Bill `json:"bill,omitempty"`
	// Trials are the bills of the trials on further machine types.
	Trials []TrialBill `json:"trials,omitempty"`
	// TrialSeconds is how long a trial takes on one machine type.
	TrialSeconds int64 `json:"trialSeconds,omitempty"`
}

// Total returns the duration of all steps.
func (e Estimate) Total() time.Duration { return time.Duration(e.Seconds) * time.Second }

// OutOfService returns how long the donor is out of service.
func (e Estimate) OutOfService() time.Duration {
	return time.Duration(e.OutOfServiceSeconds) * time.Second
}

// Workshop returns how long the workshop of a capture by copy runs.
func (e Estimate) Workshop() time.Duration { return time.Duration(e.WorkshopSeconds) * time.Second }

// Of estimates from the medians of the successful captures with the same method: by copy, or in place.
func Of(prototypes []v1alpha1.Prototype, copies bool) Estimate {
	var (
		estimate Estimate
		order    []v1alpha1.Phase
		steps    = map[v1alpha1.Phase][]time.Duration{}
		held     []time.Duration
		trials   []time.Duration
	)
	for i := range prototypes {
		p := &prototypes[i]
		if p.Status.Phase != v1alpha1.PhaseSucceeded || len(p.Status.Steps) == 0 || p.Spec.Settings.CopiesDonor() != copies {
			continue
		}
		estimate.Captures++
		for phase, took := range stepsOf(p) {
			if _, known := steps[phase]; !known {
				order = append(order, phase)
			}
			steps[phase] = append(steps[phase], took)
			if phase == v1alpha1.PhaseRunningTrial {
				trials = append(trials, took/time.Duration(1+len(p.Spec.Settings.Trial.MachineTypes)))
			}
		}
		if donor := p.Status.Donor; donor != nil && donor.ReservedAt != nil && donor.ReleasedAt != nil {
			held = append(held, donor.ReleasedAt.Sub(donor.ReservedAt.Time))
		}
	}
	slices.SortFunc(order, func(a, b v1alpha1.Phase) int { return cmp.Compare(place(a), place(b)) })
	var total time.Duration
	for _, phase := range order {
		took := median(steps[phase])
		total += took
		estimate.Steps = append(estimate.Steps, Step{phase, int64(took.Round(time.Second).Seconds())})
	}
	estimate.TrialSeconds = int64(median(trials).Round(time.Second).Seconds())
	estimate.Seconds = int64(total.Round(time.Second).Seconds())
	reserved := int64(median(held).Round(time.Second).Seconds())
	if copies {
		estimate.WorkshopSeconds = reserved
	} else {
		estimate.OutOfServiceSeconds = reserved
	}
	return estimate
}

// stepsOf adds up the time in each phase, because a capture may enter a phase more than once.
func stepsOf(p *v1alpha1.Prototype) map[v1alpha1.Phase]time.Duration {
	took := map[v1alpha1.Phase]time.Duration{}
	for _, step := range p.Status.Steps {
		if step.FinishedAt != nil {
			took[step.Phase] += step.FinishedAt.Sub(step.StartedAt.Time)
		}
	}
	return took
}

// phases in the order of a capture.
var phases = []v1alpha1.Phase{
	v1alpha1.PhasePending, v1alpha1.PhasePreflight, v1alpha1.PhaseReserving,
	v1alpha1.PhasePatching, v1alpha1.PhaseRebooting, v1alpha1.PhaseSoaking, v1alpha1.PhaseStartingWorkshop, v1alpha1.PhaseQuiescing, v1alpha1.PhaseCopying,
	v1alpha1.PhaseDraining, v1alpha1.PhaseGeneralizing,
	v1alpha1.PhaseStopping, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseStarting, v1alpha1.PhaseWaitingReady, v1alpha1.PhaseReleasing,
	v1alpha1.PhasePublishing, v1alpha1.PhaseRunningTrial, v1alpha1.PhaseAwaitingPromotion, v1alpha1.PhasePromoting, v1alpha1.PhaseRetiring,
}

func place(phase v1alpha1.Phase) int {
	if i := slices.Index(phases, phase); i >= 0 {
		return i
	}
	return len(phases)
}

// median returns the median of durations; zero without durations. For an even number it is the mean of the two in the
// middle.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Clone(all)
	slices.Sort(all)
	middle := len(all) / 2
	if len(all)%2 == 1 {
		return all[middle]
	}
	return (all[middle-1] + all[middle]) / 2
}
