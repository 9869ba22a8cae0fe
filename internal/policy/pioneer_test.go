package policy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/patch"
	"github.com/kamino-dev/kamino/internal/patch/nodepatch"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/policy/schedule"
	"github.com/kamino-dev/kamino/internal/pool/nodecache"
	"github.com/kamino-dev/kamino/internal/selection"
	"github.com/kamino-dev/kamino/internal/testing/apitest/inmemory"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// pioneerStage is a stage whose nodes answer checks for patches. All objects are in memory.
type pioneerStage struct {
	*testEnv
	pool cloud.PoolID
	// report is the answer of a node; nil while the check is running. fails is the error of a check.
	report *patch.Report
	// reports are the answers of single nodes, instead of report.
	reports map[string]*patch.Report
	fails   error
	asked   []nodepatch.CheckTask
	swept   [][]nodepatch.CheckTask
	seen    []policy.Patches
}

func newPioneerStage(t *testing.T, change func(*v1alpha1.PrototypePolicySpec)) *pioneerStage {
	t.Helper()
	s := &pioneerStage{testEnv: &testEnv{T: t, isInMemory: true, clock: memory.NewClock(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))}}
	s.cloud = memory.New(memory.Config{Now: s.clock.Now, NoCopy: true})
	s.calls = memory.NewFaulty(s.cloud, nil)
	s.nodes = nodecache.NewNodes(s.cloud)
	s.client = inmemory.New(s.clock.Now).Client(nil)
	s.pool = s.testEnv.pool("pool1", 3, 20)
	s.must(s.nodes.Place(t.Context()))
	look, err := s.cloud.Pool(t.Context(), s.pool)
	s.must(err)
	for _, n := range s.nodes.Of(s.pool) {
		s.change(s.pool, n.Name, func(n *corev1.Node) {
			n.Annotations, n.Labels[v1alpha1.VersionLabel] = nil, v1alpha1.VersionLabelValue(look.Recipe.Version)
		})
	}
	p := &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	p.Spec.Pioneer = &v1alpha1.PolicyPioneerSettings{}
	if change != nil {
		change(&p.Spec)
	}
	s.must(s.client.Create(t.Context(), p))
	s.restart()
	return s
}

func (s *pioneerStage) restart() {
	s.testEnv.restart()
	s.decider.PatchChecks.Check = func(_ context.Context, t nodepatch.CheckTask) (*nodepatch.Checked, error) {
		s.asked = append(s.asked, t)
		if s.fails != nil || s.report == nil {
			return nil, s.fails
		}
		if own := s.reports[t.Node]; own != nil {
			return &nodepatch.Checked{Node: t.Node, Report: own}, nil
		}
		return &nodepatch.Checked{Node: t.Node, Report: s.report}, nil
	}
	s.decider.PatchChecks.Sweep = func(_ context.Context, wanted []nodepatch.CheckTask) error {
		s.swept = append(s.swept, wanted)
		return nil
	}
	s.decider.Observers.Patches = func(all []policy.Patches) { s.seen = all }
}

// reported is the report of a check.
func reported(names ...string) *patch.Report {
	r := &patch.Report{Method: patch.Check, Health: patch.Healthy, Repositories: []patch.Repository{{ID: "main", Read: true}}}
	for _, name := range names {
		r.Pending = append(r.Pending, patch.Change{Name: name, To: "2", Security: true})
	}
	r.Counts.Pending, r.Counts.Security = len(names), len(names)
	return r
}

// passes makes passes, a minute apart.
func (s *pioneerStage) passes(n int) {
	s.Helper()
	for range n {
		s.runPass()
		s.clock.Advance(time.Minute)
	}
}

// degradedFor returns the message of the condition Degraded with this reason; empty without it.
func (s *pioneerStage) degradedFor(reason string) string {
	s.Helper()
	c := meta.FindStatusCondition(s.status("all").Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
		return ""
	}
	return c.Message
}

// endPioneer ends a pioneer as the engine would. failure is the reason of a failed patch.
func (s *pioneerStage) endPioneer(name, failure string) {
	s.Helper()
	p := &v1alpha1.Prototype{}
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, p))
	p.Status.Patch = &v1alpha1.PatchStatus{Level: "level", Failure: failure}
	if failure != "" {
		p.Status.Patch.FailedLevel = "level"
	}
	s.must(s.client.Status().Update(s.Context(), p))
	phase := v1alpha1.PhaseSucceeded
	if failure != "" {
		phase = v1alpha1.PhaseFailed
	}
	s.end(name, phase)
}

// TestPendingPatchesBeginAPioneer: a node checks first, and the node's patch annotations do not matter.
func TestPendingPatchesBeginAPioneer(t *testing.T) {
	s := newPioneerStage(t, func(spec *v1alpha1.PrototypePolicySpec) { spec.Pioneer.MinAge.Duration = time.Hour })
	s.runPass()
	s.decided("all", "pool1", policy.CheckingPatches)
	if len(s.asked) != 1 || s.asked[0].Holder.Kind != v1alpha1.HolderPolicy || s.asked[0].Holder.UID == "" || s.asked[0].Pool != string(s.pool) ||
		s.asked[0].Patches.Patches != v1alpha1.PatchSecurity {
		t.Fatalf("asked %+v", s.asked)
	}
	if s.after > 10*time.Second {
		t.Errorf("the next look at a running check is after %s", s.after)
	}
	s.report = reported("openssl")
	s.passes(3)
	s.decided("all", "pool1", schedule.TooSoon, "1 pending patch", "1h")
	if got := s.poolStatus("all", "pool1").Patches; got == nil || got.Security != 1 || got.Node != s.asked[0].Node || got.Version == "" {
		t.Errorf("patches = %+v", got)
	}
	if len(s.prototypes()) != 0 {
		t.Fatalf("prototypes = %v", s.donors())
	}
	s.restart() // the status keeps the age of the patches
	s.clock.Advance(time.Hour)
	s.passes(2)
	all := s.prototypes()
	if len(all) != 1 || all[0].Spec.Pioneer == nil || all[0].Spec.Pioneer.MinAge.Duration != 0 || all[0].Status.PatchSet == "" {
		t.Fatalf("prototypes = %+v", all)
	}
	if len(s.seen) != 1 || !s.seen[0].Known || s.seen[0].Security != 1 || s.seen[0].Unchecked != "" {
		t.Errorf("metrics = %+v", s.seen)
	}
	s.well("all")
}

// TestTheNodeThatKnowsMoreIsBelieved: two nodes check. Root on one node can neither hide patches nor reset their age.
func TestTheNodeThatKnowsMoreIsBelieved(t *testing.T) {
	unread := reported()
	unread.Repositories[0].Read = false
	for name, lie := range map[string]*patch.Report{"nothing is pending": reported(), "fewer patches": reported("curl"), "no repository can be read": unread} {
		for hides := range 2 {
			s := newPioneerStage(t, func(spec *v1alpha1.PrototypePolicySpec) { spec.Pioneer.MinAge.Duration = 9 * time.Hour })
			s.runPass()
			s.report = reported("openssl", "curl")
			s.passes(3)
			asked := []string{s.asked[0].Node, s.asked[len(s.asked)-1].Node}
			if asked[0] == asked[1] {
				t.Fatalf("asked %v", asked)
			}
			first := s.poolStatus("all", "pool1").Patches
			s.reports = map[string]*patch.Report{asked[hides]: lie}
			for range 2 {
				s.clock.Advance(6 * time.Hour)
				s.passes(4)
			}
			got := s.poolStatus("all", "pool1").Patches
			if got == nil || got.Packages != 2 || got.Set != first.Set || !got.Since.Equal(first.Since) || got.Reason != "" {
				t.Errorf("%s, node %d lies: patches %+v, at first %+v", name, hides+1, got, first)
			}
			if all := s.prototypes(); len(all) != 1 || all[0].Status.PatchSet != first.Set {
				t.Errorf("%s, node %d lies: prototypes %v", name, hides+1, s.donors())
			}
		}
	}
}

// TestPioneersPerWeek: a node that reports other patches each day cannot have a node patched each day.
func TestPioneersPerWeek(t *testing.T) {
	s := newPioneerStage(t, nil)
	begun := map[string]bool{}
	for day := range 14 {
		s.report = reported(fmt.Sprintf("package-%d", day))
		for range 4 {
			s.passes(3)
			for _, p := range s.prototypes() {
				if !begun[p.Name] {
					begun[p.Name] = true
					s.endPioneer(p.Name, "")
				}
			}
			s.clock.Advance(6 * time.Hour)
		}
		if most := 3 * (day/7 + 1); len(begun) > most {
			t.Fatalf("%d pioneers within %d days", len(begun), day+1)
		}
	}
	if len(begun) != 6 {
		t.Errorf("%d pioneers in two weeks, want 6", len(begun))
	}
}

// TestNoPatchesNoCapture: a pool is captured without pending patches only if its image is too old.
func TestNoPatchesNoCapture(t *testing.T) {
	s := newPioneerStage(t, nil)
	s.report = reported()
	s.passes(3)
	s.decided("all", "pool1", selection.UpToDate)
	if len(s.prototypes()) != 0 || len(s.asked) != 2 {
		t.Errorf("prototypes %v, %d checks", s.donors(), len(s.asked))
	}
	s.clock.Advance(6 * time.Hour)
	s.passes(3)
	if len(s.asked) != 4 {
		t.Errorf("%d checks after checkEvery", len(s.asked))
	}
	s.edit("all", func(spec *v1alpha1.PrototypePolicySpec) { spec.Selection.MaxImageAge.Duration = 24 * time.Hour })
	s.passes(3)
	if all := s.prototypes(); len(all) != 1 || all[0].Spec.Pioneer != nil {
		t.Errorf("prototypes = %+v", all)
	}
}

// TestCouldNotCheckIsReported by a condition, an event and a metric, and never begins a capture.
func TestCouldNotCheckIsReported(t *testing.T) {
	dead := reported()
	dead.Repositories[0].Read, dead.Repositories[0].Problem = false, "no route to host"
	for _, c := range []struct {
		name, says string
		trouble    func(*pioneerStage)
	}{
		{"a dead mirror", "no route to host", func(s *pioneerStage) { s.report = dead }},
		{"the API server", "nodeorders are forbidden", func(s *pioneerStage) { s.fails = errors.New("nodeorders are forbidden") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPioneerStage(t, nil)
			c.trouble(s)
			s.passes(3)
			if got := s.degradedFor(v1alpha1.PolicyPatchesNotChecked); !strings.Contains(got, c.says) {
				t.Errorf("condition Degraded = %q", got)
			}
			if !s.heardOf("PatchesNotChecked") {
				t.Error("no event names the trouble")
			}
			if len(s.seen) != 1 || s.seen[0].Unchecked == "" || s.seen[0].Known {
				t.Errorf("metrics = %+v", s.seen)
			}
			if len(s.prototypes()) != 0 {
				t.Errorf("prototypes = %v", s.donors())
			}
			s.fails, s.report = nil, reported()
			s.clock.Advance(time.Hour)
			s.passes(3)
			s.well("all")
			s.decided("all", "pool1", selection.UpToDate)
		})
	}
}

// TestFailedPatchesAreNotTriedAgain: not after a restart, and not after the deletion of the Prototype. Other patches are.
func TestFailedPatchesAreNotTriedAgain(t *testing.T) {
	s := newPioneerStage(t, nil)
	s.report = reported("kernel")
	s.passes(3)
	s.endPioneer(s.prototypes()[0].Name, "RebootTimeout")
	s.clock.Advance(48 * time.Hour)
	s.passes(3)
	s.decided("all", "pool1", v1alpha1.PolicyPatchesQuarantined, v1alpha1.RetryCommand("all"))
	if s.degradedFor(v1alpha1.PolicyPatchesQuarantined) == "" || !s.heardOf("PatchesQuarantined") || !s.seen[0].Quarantined {
		t.Errorf("the quarantine is not reported: %+v, %+v", s.status("all").Status.Conditions, s.seen)
	}
	failed := s.prototypes()[0]
	s.must(s.client.Delete(t.Context(), &failed))
	for range 5 {
		s.restart()
		s.clock.Advance(24 * time.Hour)
		s.passes(3)
	}
	if got := s.donors(); len(got) != 0 {
		t.Fatalf("the failed patches are tried again: %v", got)
	}
	s.report = reported("kernel", "openssl")
	s.clock.Advance(7 * time.Hour)
	s.passes(3)
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v", got)
	}
}

// TestARetryTriesFailedPatchesAgain, because a person asked.
func TestARetryTriesFailedPatchesAgain(t *testing.T) {
	s := newPioneerStage(t, nil)
	s.report = reported("kernel")
	s.passes(3)
	s.endPioneer(s.prototypes()[0].Name, "SoakFailed")
	s.clock.Advance(48 * time.Hour)
	s.passes(3)
	s.must(policy.LookAgain(t.Context(), s.client, "pool1", s.clock.Now()))
	s.passes(3)
	if got := s.donors(); len(got) != 2 {
		t.Errorf("donors = %v", got)
	}
}

// TestAPioneerIsNotRepeated: after a success a new check must show that the image still lacks patches.
func TestAPioneerIsNotRepeated(t *testing.T) {
	s := newPioneerStage(t, nil)
	s.report = reported("openssl")
	s.passes(3)
	checks := len(s.asked)
	s.passes(5)
	if len(s.asked) != checks {
		t.Errorf("%d checks during a capture", len(s.asked)-checks)
	}
	s.endPioneer(s.prototypes()[0].Name, "")
	s.report = reported()
	s.clock.Advance(24 * time.Hour)
	s.passes(3)
	if got := s.donors(); len(got) != 1 || len(s.asked) != checks+2 {
		t.Errorf("donors = %v, %d checks", got, len(s.asked)-checks)
	}
}

// TestUnwantedChecksAreSwept at the start of a process, and when a policy no longer has pioneers.
func TestUnwantedChecksAreSwept(t *testing.T) {
	s := newPioneerStage(t, nil)
	s.passes(2)
	s.edit("all", func(spec *v1alpha1.PrototypePolicySpec) { spec.Pioneer = nil })
	s.passes(2)
	if len(s.swept) != 2 || len(s.swept[0]) != 1 || len(s.swept[1]) != 0 {
		t.Errorf("swept %v", s.swept)
	}
	if got := s.poolStatus("all", "pool1").Patches; got != nil {
		t.Errorf("patches = %+v", got)
	}
}
