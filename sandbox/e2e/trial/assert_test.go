package trial

import (
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// assertPassed asserts that the capture has succeeded, and that all checks except skipped have passed. The version
// records the result, the pool uses the version, and no leftovers exist.
func assertPassed(e *sandboxtest.Env, skipped ...trial.CheckName) {
	e.Helper()
	p := e.AssertSucceeded(e.Donor)
	if p.Status.Trial == nil || p.Status.Trial.Result != v1alpha1.TrialPassed || p.Status.Trial.FinishedAt == nil || p.Status.Trial.NodeInfo == nil {
		e.Fatalf("the trial is %+v", p.Status.Trial)
	}
	checks := checksOf(e, p)
	if len(checks[trial.Passed]) != len(trial.Names())-len(skipped) || !slices.Equal(checks[trial.Skipped], skipped) {
		e.Errorf("passed: %v, skipped: %v", checks[trial.Passed], checks[trial.Skipped])
	}
	tags := e.Tags(p.Spec.Version)
	if result, _ := trial.Read(tags[cloud.TagTrial]); result != trial.Passed || tags[cloud.TagQuarantined] != "" {
		e.Errorf("the version has the tags %v", tags)
	}
	assertPoolIsWhole(e)
}

// assertFailedAt asserts that the capture failed because its trial failed at the check. The version is quarantined,
// the pool builds nodes as before, and no leftovers exist.
func assertFailedAt(e *sandboxtest.Env, check trial.CheckName) {
	e.Helper()
	p := e.AssertFailed("TrialFailed")
	if p.Status.Trial == nil || p.Status.Trial.Result != v1alpha1.TrialFailed || !strings.Contains(p.Status.Trial.Message, string(check)) {
		e.Fatalf("the trial is %+v", p.Status.Trial)
	}
	if failed := checksOf(e, p)[trial.Failed]; !slices.Equal(failed, []trial.CheckName{check}) {
		e.Errorf("failed: %v, want %s", failed, check)
	}
	tags := e.Tags(p.Spec.Version)
	if why, isBlame := trial.Blamed(tags[cloud.TagQuarantined]); !isBlame || !strings.HasPrefix(why, string(check)+": ") {
		e.Errorf("the version is quarantined for %q, want the check %s", tags[cloud.TagQuarantined], check)
	}
	if result, at := trial.Read(tags[cloud.TagTrial]); result != trial.Failed || at.IsZero() {
		e.Errorf("the version's tag %s is %q", cloud.TagTrial, tags[cloud.TagTrial])
	}
	if now := e.State(); now.Image != e.Before.Image || !slices.Equal(now.Extensions, e.Before.Extensions) {
		e.Errorf("pool %s builds from %s, with the extensions %v", e.Pool, now.Image, now.Extensions)
	}
	assertPoolIsWhole(e)
}

// assertPoolIsWhole asserts the number of nodes of before, all serving and without the version, and no leftovers of
// the capture.
func assertPoolIsWhole(e *sandboxtest.Env) {
	e.Helper()
	e.AssertNothingLeft()
	machines := e.MachinesNow()
	if size := e.CloudPool().Capacity; size != e.Before.Capacity || len(machines) != len(e.Machines) {
		e.Errorf("pool %s of %d nodes has %d machines; before it had %d", e.Pool, size, len(machines), len(e.Machines))
	}
	for _, m := range e.MachinesOfVersions() {
		e.Errorf("machine %s of the trial is left", m.ID)
	}
	for _, m := range machines {
		e.AssertServes(m.Node)
	}
}

// checksOf returns the checks of a trial by result. Each check must have a message and a time.
func checksOf(e *sandboxtest.Env, p *v1alpha1.Prototype) map[trial.Result][]trial.CheckName {
	e.Helper()
	checks := map[trial.Result][]trial.CheckName{}
	for _, c := range p.Status.Trial.Checks {
		if c.Result == "" || c.Message == "" || c.At == nil {
			e.Errorf("check %s is %q: %q, at %v", c.Name, c.Result, c.Message, c.At)
		}
		checks[trial.Result(c.Result)] = append(checks[trial.Result(c.Result)], trial.CheckName(c.Name))
	}
	return checks
}
