package week

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
	"github.com/kamino-dev/kamino/internal/trial"
)

// witness observes trial nodes: each existing node is good, unless its version is in foundOut.
type witness struct{ *weekEnv }

// Check implements capture.TrialObserver.
func (w witness) Check(context.Context, v1alpha1.Settings) ([]cloud.Refusal, error) { return nil, nil }

// Observe implements capture.TrialObserver.
func (w witness) Observe(_ context.Context, subject trial.Subject) (trial.Observation, error) {
	observation := trial.Observation{Facts: subject.Facts}
	for _, n := range w.allNodes() {
		if !slices.ContainsFunc(subject.Instances, func(m cloud.Instance) bool { return nodeName(m.ID) == n.Name }) {
			continue
		}
		if !n.Spec.Unschedulable {
			n.Spec.Unschedulable = true
			w.update(&n)
		}
		f := &observation.Facts
		f.Node, f.Registered, f.Changed = n.Name, ready(&n).LastTransitionTime.Time, ready(&n).LastTransitionTime.Time
		f.Ready, f.WasReady = ready(&n).Status == corev1.ConditionTrue, true
		f.IdentityKnown, f.Digest, f.Comparison = true, f.Proven, &trial.PeerComparison{Others: 2}
		f.Network, f.Images = trial.Measure{Result: trial.Passed, Says: "pods reach each other"}, trial.Measure{Result: trial.Passed, Says: "started"}
		f.Job = trial.Measure{Result: trial.Skipped, Says: "none"}
		if w.foundOut[subject.Prototype.Name] {
			f.Twins = []string{"its donor"}
		}
		observation.Node = &v1alpha1.TrialNode{Kernel: "6.8.0"}
	}
	return observation, nil
}

// Hold implements capture.TrialObserver. No donor is copied here.
func (witness) Hold(context.Context, trial.Subject) (trial.Held, error) { return trial.Held{}, nil }

// Evidence implements capture.TrialObserver.
func (w witness) Evidence(context.Context, string) string { return "" }

// Clean implements capture.TrialObserver. Here, the cloud's controller deletes the Nodes of deleted instances.
func (w witness) Clean(context.Context, trial.Subject) (left []string, err error) { return nil, nil }

// injectTrialFaults removes capacity for one or two trials, and lets a version fail its trial around the bad day.
// On the bad day and on the last day every pool must get its version.
func (w *weekEnv) injectTrialFaults(day int) {
	w.nextIsBad = day == badDay-1 || day == badDay+1
	short := w.random.IntN(3)
	if day == badDay || day == days {
		short = 0
	}
	w.shortages += short
	w.cloud.FailTrials(short, memory.TrialFailure{Trouble: "12 of 12 cores are used", LacksCapacity: true})
}

// judgeTrials checks that failed versions are quarantined and unused, and that trials leave no objects.
func (w *weekEnv) judgeTrials() {
	if left := w.cloud.World().Trials; len(left) > 0 {
		w.t.Errorf("trials are left behind: %+v", left)
	}
	tried := 0
	for _, p := range w.prototypes() {
		failed := p.Status.Failure != nil && p.Status.Failure.Reason == "TrialFailed"
		if w.foundOut[p.Name] != failed && p.Status.Phase == v1alpha1.PhaseSucceeded {
			w.t.Errorf("the version of %s is bad, and its capture %s", p.Name, p.Status.Phase)
		}
		if t := p.Status.Trial; t != nil {
			tried++
		}
		if !failed {
			continue
		}
		for _, m := range w.cloud.World().Instances {
			if m.Pool == w.poolOf(&p) && m.BuiltFrom == p.Spec.Version {
				w.t.Errorf("%s was built from version %s, which failed its trial", m.ID, p.Spec.Version)
			}
		}
	}
	if tried == 0 || w.shortages == 0 || len(w.foundOut) == 0 {
		w.t.Errorf("%d trials, %d shortages, %d bad versions: that shows nothing", tried, w.shortages, len(w.foundOut))
	}
	w.t.Logf("%d versions tried; for %d trials there was no room, and %d versions were found out", tried, w.shortages, len(w.foundOut))
}

// wasFoundOut reports whether a pool's version had to fail its trial.
func (w *weekEnv) wasFoundOut(id cloud.PoolID, version string) bool {
	return slices.ContainsFunc(w.prototypes(), func(p v1alpha1.Prototype) bool {
		return w.foundOut[p.Name] && p.Spec.Version == version && w.poolOf(&p) == id
	})
}

func (w *weekEnv) poolOf(p *v1alpha1.Prototype) cloud.PoolID {
	id, err := w.cloud.PoolOf(cloud.InstanceID(p.Spec.Donor.ProviderID))
	w.must(err)
	return id
}

// trying counts the captures in a trial.
func (w *weekEnv) trying() int {
	n := 0
	for _, p := range w.prototypes() {
		if p.Status.Phase == v1alpha1.PhaseRunningTrial {
			n++
		}
	}
	return n
}
