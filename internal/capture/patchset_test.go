package capture

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// openssl is the pending patch of all nodes.
var openssl = patch.Digest([]patch.Change{{Name: "openssl", From: "1", To: "2"}})

// failedBefore stages a pioneer of the pool that failed with the patches.
func failedBefore(s *testEnv, set string) {
	other := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.13", UID: "other"}}
	other.Spec.Pool = "pool1"
	other.Status = v1alpha1.PrototypeStatus{
		Phase: v1alpha1.PhaseFailed, Failure: &v1alpha1.Failure{Reason: "DonorNotPatched", Message: "the script of openssl failed."},
		Patch: &v1alpha1.PatchStatus{Set: set, Failure: "PatchFailed"},
	}
	s.must(s.clean.Create(s.t.Context(), other.DeepCopy()))
	s.must(s.clean.Status().Update(s.t.Context(), other))
}

// aPioneer is the begin of a capture of a pioneer in place.
func aPioneer(t testing.TB) *testEnv { return newTestEnv(t, pioneering).decide(pioneer) }

// TestFailedPatchesAreNotInstalledAgain: a node in service checks its patches first, and a known failure ends the capture before
// a drain.
func TestFailedPatchesAreNotInstalledAgain(t *testing.T) {
	for name, test := range map[string]struct {
		stage         func(*testEnv)
		reason, words string
		checks        int
	}{
		"without a failure before": {stage: func(*testEnv) {}},
		"of other patches":         {stage: func(s *testEnv) { failedBefore(s, "sha256:other") }, checks: 1},
		"of these patches": {stage: func(s *testEnv) { failedBefore(s, openssl) }, checks: 1, reason: v1alpha1.PolicyPatchesQuarantined,
			words: "the pending patches of pool pool1 failed on the pioneer of prototype pool1-2026.03.13, and were not installed again: the script of openssl failed; " +
				"wait for other patches, or hold the faulty package with pioneer.hold; to try these patches again, first run `kubectl delete prototype pool1-2026.03.13`"},
		"of a policy whose Prototype is deleted": {stage: func(s *testEnv) {
			policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "all"}}
			policy.Status.Pools = []v1alpha1.PoolStatus{{Name: "pool1", Patches: &v1alpha1.PatchesStatus{
				Failed: []v1alpha1.FailedPatches{{Set: openssl, Prototype: "pool1-2026.03.13", Message: "bad"}},
			}}}
			s.must(s.clean.Create(s.t.Context(), policy.DeepCopy()))
			s.must(s.clean.Status().Update(s.t.Context(), policy))
		}, checks: 1, reason: v1alpha1.PolicyPatchesQuarantined, words: "`kubectl delete prototype pool1-2026.03.13` and `kubectl annotate --overwrite prototypepolicy all "},
		"known from the policy": {stage: func(s *testEnv) {
			failedBefore(s, openssl)
			s.onStatus(func(p *v1alpha1.Prototype) { p.Status.PatchSet = openssl })
		}, reason: v1alpha1.PolicyPatchesQuarantined, words: "were not installed again"},
		"a dead repository": {stage: func(s *testEnv) {
			failedBefore(s, openssl)
			s.patches.report = func(r *patch.Report) {
				r.Failure = &patch.Failure{Reason: patch.RepositoryNotRead, Message: "main is dead"}
			}
		}, checks: 1, reason: v1alpha1.PolicyPatchesNotChecked, words: "could not check its pending patches (RepositoryNotRead): main is dead; correct the cause"},
	} {
		t.Run(name, func(t *testing.T) {
			s := aPioneer(t)
			test.stage(s)
			p := s.play()
			if s.patches.checks != test.checks {
				t.Errorf("%d checks, want %d", s.patches.checks, test.checks)
			}
			if test.reason == "" {
				if p.Status.Phase != v1alpha1.PhaseSucceeded || s.patches.installs != 1 {
					t.Fatal(verdict(p))
				}
				if set := p.Status.PatchSet; (set == openssl) != (test.checks > 0) {
					t.Errorf("the set is %q", set)
				}
				return
			}
			if p.Status.Failure == nil || p.Status.Failure.Reason != test.reason || !strings.Contains(p.Status.Failure.Message, test.words) {
				t.Errorf("%s\nwant %s: %s", verdict(p), test.reason, test.words)
			}
			s.checkUntouched()
		})
	}
}

// TestPreviewOfFailedPatches: a dry run checks no node. Its answer is the answer of the capture if a policy knows the pending
// patches, and otherwise names the check.
func TestPreviewOfFailedPatches(t *testing.T) {
	found := func(change func(*v1alpha1.PrototypePolicy)) func(*testEnv) {
		return func(s *testEnv) {
			failedBefore(s, openssl)
			policy := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "all"}}
			policy.Spec.Pioneer = &v1alpha1.PolicyPioneerSettings{}
			policy.Status.Pools = []v1alpha1.PoolStatus{
				{Name: "pool1", Patches: &v1alpha1.PatchesStatus{PendingPatches: v1alpha1.PendingPatches{Set: openssl}}},
			}
			change(policy)
			s.must(s.clean.Create(s.t.Context(), policy.DeepCopy()))
			s.must(s.clean.Status().Update(s.t.Context(), policy))
		}
	}
	const refused, check = "failed on the pioneer of prototype pool1-2026.03.13", "of prototype pool1-2026.03.13 (the script of openssl failed)"
	for _, test := range []struct {
		name           string
		stage          func(*testEnv)
		refused, check string
	}{
		{"no failure before", func(*testEnv) {}, "", ""},
		{"a failure before", func(s *testEnv) { failedBefore(s, openssl) }, "", check},
		{"a policy found these patches", found(func(*v1alpha1.PrototypePolicy) {}), refused, ""},
		{"a policy found other patches", found(func(p *v1alpha1.PrototypePolicy) { p.Status.Pools[0].Patches.Set = "sha256:other" }), "", check},
		{"a policy asked for other patches", found(func(p *v1alpha1.PrototypePolicy) { p.Spec.Pioneer.Patches = v1alpha1.PatchAll }), "", check},
		{"a policy holds other packages", found(func(p *v1alpha1.PrototypePolicy) { p.Spec.Pioneer.Hold = []string{"^linux-"} }), "", check},
		{"the policy's own pioneer", func(s *testEnv) {
			failedBefore(s, openssl)
			s.onStatus(func(p *v1alpha1.Prototype) { p.Status.PatchSet = openssl })
		}, refused, ""},
	} {
		s := aPioneer(t)
		test.stage(s)
		preview, err := s.engine.Preview(t.Context(), s.prototype(), nil)
		if err != nil {
			t.Fatal(err)
		}
		refusal := ""
		if len(preview.Refusals) == 1 && preview.Refusals[0].Reason == v1alpha1.PolicyPatchesQuarantined {
			refusal = preview.Refusals[0].Message
		}
		if len(preview.Refusals) > 1 || !strings.Contains(refusal, test.refused) || (refusal == "") != (test.refused == "") {
			t.Errorf("%s: refusals %+v", test.name, preview.Refusals)
		}
		if !strings.HasSuffix(preview.PatchCheck, test.check) || (preview.PatchCheck == "") != (test.check == "") {
			t.Errorf("%s: %q", test.name, preview.PatchCheck)
		}
		if s.patches.checks > 0 {
			t.Errorf("%s: a node checked", test.name)
		}
	}
}

// TestPreviewHasRefusalsAndErrors: an error of the check of patches hides no refusal, and no refusal hides the error.
func TestPreviewHasRefusalsAndErrors(t *testing.T) {
	s := newTestEnv(t, pioneering).decide(pioneer)
	failedBefore(s, openssl)
	s.withoutAccount()
	s.lose = func(what string) memory.Outcome {
		if what == "list prototypepolicy" {
			return memory.Outcome{Err: errors.New("policies are away")}
		}
		return memory.Pass()
	}
	preview, err := s.engine.Preview(t.Context(), s.prototype(), nil)
	if len(preview.Refusals) != 1 || preview.Refusals[0].Reason != admission.NotInstalled || err == nil || !strings.Contains(err.Error(), "policies are away") {
		t.Errorf("refusals %+v, error %v, calls %v", preview.Refusals, err, s.calls())
	}
}

// checkUntouched checks that nothing was installed or evicted.
func (s *testEnv) checkUntouched() {
	s.t.Helper()
	for _, call := range s.calls() {
		if call == "create pods/eviction" {
			s.t.Errorf("the capture called %s", call)
		}
	}
	if left := s.leftOfPatch(); s.patches.installs > 0 || len(left) > 0 || s.cloud.World().Pools[0].Capacity != 2 {
		s.t.Errorf("%d installs, left %v, %d nodes", s.patches.installs, left, s.cloud.World().Pools[0].Capacity)
	}
}

// TestEveryCallOfACheckLost loses each call of a refused pioneer, also with a crash and a restart.
func TestEveryCallOfACheckLost(t *testing.T) {
	memory.Courses{Losses: losses, Least: 10, Play: func(t *testing.T, schedule *memory.Schedule) {
		s := aPioneer(t)
		failedBefore(s, openssl)
		s.schedule = schedule
		p := s.play()
		if p.Status.Failure == nil || p.Status.Failure.Reason != v1alpha1.PolicyPatchesQuarantined {
			t.Fatal(verdict(p))
		}
		s.checkUntouched()
	}}.LoseEach(t)
}
