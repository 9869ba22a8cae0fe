package policy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

func TestAnEmptyPolicyCapturesTheBestPatchedNode(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	all := s.prototypes()
	if len(all) != 1 {
		t.Fatalf("prototypes = %v", s.donors())
	}
	today := imageversion.Of(s.clock.Now())
	p := all[0]
	if p.Name != "pool1-"+today || p.Spec.Version != today || p.Spec.Pool != "pool1" || p.Spec.Donor.NodeName != "pool1-2" {
		t.Errorf("prototype %s = %+v", p.Name, p.Spec)
	}
	if p.Labels[v1alpha1.PolicyLabel] != "all" || p.Labels[v1alpha1.PoolLabel] != "pool1" {
		t.Errorf("labels = %v", p.Labels)
	}
	if p.Spec.Donor.ProviderID == "" || p.Spec.Settings.Keep != 3 {
		t.Errorf("spec = %+v", p.Spec)
	}
	status := s.poolStatus("all", "pool1")
	if status.Candidates != 3 || status.Nodes != 3 || status.Prototype != p.Name || status.Donor != "pool1-2" || status.CurrentVersion == "" ||
		status.ImageBuiltAt == nil || status.NewestPatch == nil {
		t.Errorf("status = %+v", status)
	}
	s.decided("all", "pool1", policy.Capturing, "pool1-2", today)
	s.well("all")
	if !s.heardOf("Decided") {
		t.Error("no event names the decision")
	}
}

// Another pass, in the same process or another, decides nothing twice.
func TestADecisionIsMadeOnce(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	for range 3 {
		s.change(id, "pool1-0", func(n *corev1.Node) { n.Annotations["news"] = fmt.Sprint(s.clock.Now()) })
		s.clock.Advance(time.Minute)
		s.runPass()
		s.restart()
		s.runPass()
	}
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v", got)
	}
	s.decided("all", "pool1", "CaptureInFlight")
}

// Another process writes the same Prototype between the look and the write.
func TestALostRaceIsNoTrouble(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.decider.Preflight = func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		other := p.DeepCopy()
		other.Spec.Donor.NodeName = "pool1-1"
		s.must(s.client.Create(ctx, other))
		return nil, nil
	}
	s.runPass()
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-1"}) {
		t.Errorf("donors = %v", got)
	}
	s.well("all")
}

func TestPoolOfTwoPoliciesIsNotCaptured(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.pool("pool2", 3, 20)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"pool1", "pool2"}; p.MaxConcurrent = 5 })
	s.policy("one", func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"POOL1"}; p.MaxConcurrent = 5 })
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool2-2"}) {
		t.Errorf("donors = %v", got)
	}
	s.stalled("all", v1alpha1.PolicyPoolClaimedTwice, "pool pool1", "policy one", "spec.pools")
	s.stalled("one", v1alpha1.PolicyPoolClaimedTwice, "pool pool1", "policy all", "spec.pools")
	if !s.heardOf(v1alpha1.PolicyPoolClaimedTwice) {
		t.Error("no event names it")
	}

	s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"pool2"} })
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-2", "pool2-2"}) {
		t.Errorf("donors = %v", got)
	}
	s.well("all")
	s.well("one")
}

func TestPolicyWithoutPoolIsReported(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("named", func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"nowhere"} })
	s.policy("selecting", func(p *v1alpha1.PrototypePolicySpec) {
		p.Pools.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "node"}}
	})
	s.runPass()
	s.stalled("named", v1alpha1.PolicyNoPoolMatches, "pool nowhere", "spec.pools.names")
	s.stalled("selecting", v1alpha1.PolicyNoPoolMatches, "no pool with a node", "spec.pools")
	if s.runPass(); len(s.calls.Calls()) > oneLook {
		t.Errorf("the cloud was asked: %v", s.calls.Calls())
	}
}

func TestANodeSelectorSelectsPools(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.pool("pool2", 3, 20)
	s.change(id, "pool1-0", func(n *corev1.Node) { n.Labels["tier"] = "web" })
	s.policy("web", func(p *v1alpha1.PrototypePolicySpec) {
		p.Pools.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
	})
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-2"}) {
		t.Errorf("donors = %v", got)
	}
}

func TestUnreadableObjectsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.PrototypePolicySpec)
		reason string
		word   string
	}{
		"a cron that never fires": {func(p *v1alpha1.PrototypePolicySpec) { p.Schedule.Cron = "0 3 30 2 *" }, v1alpha1.PolicyScheduleNeverFires, "cron"},
		"a cron that is none":     {func(p *v1alpha1.PrototypePolicySpec) { p.Schedule.Cron = "61 99 * * *" }, v1alpha1.PolicyScheduleInvalid, "cron"},
		"CEL that does not compile": {func(p *v1alpha1.PrototypePolicySpec) { p.Selection.Refuse = "node.metadata.name ==" },
			v1alpha1.PolicyExpressionInvalid, "selection.refuse"},
		"a trial's CEL that does not compile": {func(p *v1alpha1.PrototypePolicySpec) {
			p.Settings.Trial.Expect = []v1alpha1.TrialExpectation{{Name: "Devices", Expression: "node.status =="}}
		}, v1alpha1.PolicyExpressionInvalid, "settings.trial.expect Devices"},
		"a score that is no number": {func(p *v1alpha1.PrototypePolicySpec) { p.Selection.Score = "'high'" },
			v1alpha1.PolicyExpressionInvalid, "selection.score"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t)
			s.pool("pool1", 3, 20)
			s.policy("bad", test.change)
			s.runPass()
			s.stalled("bad", test.reason, "policy bad", test.word)
			s.decided("bad", "pool1", test.reason)
			if got := s.donors(); len(got) > 0 {
				t.Errorf("donors = %v", got)
			}
			s.edit("bad", func(p *v1alpha1.PrototypePolicySpec) { *p = v1alpha1.PrototypePolicySpec{} })
			s.runPass()
			s.well("bad")
			if got := s.donors(); len(got) != 1 {
				t.Errorf("donors after the repair = %v", got)
			}
		})
	}
}

func TestCELThatFailsOnANodeRefusesThatNode(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.change(id, "pool1-1", func(n *corev1.Node) { n.Labels["tier"] = "web" })
	s.policy("cel", func(p *v1alpha1.PrototypePolicySpec) { p.Selection.Refuse = "node.metadata.labels.tier != 'web'" })
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-1"}) {
		t.Errorf("donors = %v", got)
	}
	want := []v1alpha1.RefusalCount{{Reason: "ExpressionInvalid", Count: 2}}
	if got := s.poolStatus("cel", "pool1").Refusals; !slices.Equal(got, want) {
		t.Errorf("refusals = %v", got)
	}
}

func TestRulesThatExcludeAllNodesAreCounted(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("strict", func(p *v1alpha1.PrototypePolicySpec) {
		p.Selection.MinReadyTime = &metav1.Duration{Duration: 1000 * time.Hour}
	})
	s.runPass()
	s.decided("strict", "pool1", "TooFewCandidates", "ReadyTooShort 3", "kamino plan pool1")
	s.well("strict")
	if got := s.poolStatus("strict", "pool1"); got.Candidates != 0 || got.Refusals[0].Count != 3 ||
		got.Decision.Remedy != "for the reason of each node, run `kamino plan pool1`" {
		t.Errorf("status = %+v", got)
	}
}

func TestADonorFromAQuarantinedVersionIsRefused(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	bad := s.clock.Now().AddDate(0, 0, -2)
	s.version(id, bad, map[string]string{cloud.TagQuarantined: "nodes lose their network"})
	s.change(id, "pool1-2", func(n *corev1.Node) { n.Labels[v1alpha1.VersionLabel] = imageversion.Of(bad) })
	s.policy("all", nil)
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-1"}) {
		t.Errorf("donors = %v", got)
	}
	if got := s.poolStatus("all", "pool1").Refusals; len(got) != 1 || got[0].Reason != "BuiltFromQuarantined" {
		t.Errorf("refusals = %v", got)
	}
}

// The status names a revoked credential with the remedy. The credential costs few requests, and Kamino does not capture on
// old facts.
func TestACredentialThatIsRemovedIsNamed(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 1)
	s.policy("all", nil)
	s.runPass()
	s.decided("all", "pool1", "UpToDate")

	s.cloud.Forbid("Pool")
	s.clock.Advance(5 * time.Minute)
	s.change(id, "pool1-0", func(n *corev1.Node) {
		n.Annotations[v1alpha1.KuredRebootNeededAnnotation] = s.clock.Now().Add(-2 * time.Hour).Format(time.RFC3339)
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.clock.Now().Add(-90 * time.Minute))
	})
	before := len(s.calls.Calls())
	for range 3 {
		s.runPass()
		s.change(id, "pool1-1", func(n *corev1.Node) { n.Annotations["news"] = fmt.Sprint(s.clock.Now()) })
		s.clock.Advance(time.Minute)
	}
	s.stalled("all", v1alpha1.PolicyCloudUnavailable, "pool pool1", "Denied", "Grant this permission to the credential")
	s.decided("all", "pool1", v1alpha1.PolicyCloudUnavailable)
	if got := len(s.calls.Calls()) - before; got != 1 {
		t.Errorf("the cloud was asked %d times", got)
	}
	if got := s.donors(); len(got) > 0 {
		t.Errorf("donors = %v", got)
	}
	if status := s.poolStatus("all", "pool1"); status.CurrentVersion == "" {
		t.Error("what was known before is forgotten")
	}

	s.cloud.Permit("Pool")
	s.clock.Advance(10 * time.Minute)
	s.runPass()
	s.well("all")
	if got := s.donors(); !slices.Equal(got, []string{"pool1-0"}) {
		t.Errorf("donors = %v", got)
	}
	if !s.heardOf("Recovered") {
		t.Error("no event says that it works again")
	}
}

func TestSuspendAndDryRun(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.Suspend = true })
	s.runPass()
	s.decided("all", "pool1", v1alpha1.PolicySuspended, "spec.suspend")
	if s.runPass(); len(s.calls.Calls()) > oneLook {
		t.Errorf("a suspended policy asked the cloud: %v", s.calls.Calls())
	}
	s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.Suspend, p.DryRun = false, true })
	s.runPass()
	s.decided("all", "pool1", v1alpha1.PolicyDryRun, "node pool1-2 would be captured as version "+imageversion.Of(s.clock.Now()))
	if got := s.poolStatus("all", "pool1").Donor; got != "pool1-2" {
		t.Errorf("donor = %s", got)
	}
	if got := s.donors(); len(got) > 0 {
		t.Errorf("donors = %v", got)
	}
	s.edit("all", func(p *v1alpha1.PrototypePolicySpec) { p.DryRun = false })
	s.runPass()
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors = %v", got)
	}
}

// A failed donor is not captured again that day while another candidate exists. The pauses after failures grow, and at the
// limit the policy stops until a person deletes a failed capture.
func TestFailures(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	s.end(s.prototypes()[0].Name, v1alpha1.PhaseFailed)
	s.runPass()
	s.decided("all", "pool1", "BackingOff")
	if next := s.poolStatus("all", "pool1").NextRun; next == nil || !next.Time.Equal(s.clock.Now().Add(time.Hour)) {
		t.Errorf("next run = %v", next)
	}
	if s.after > time.Hour {
		t.Errorf("the next pass is after %s", s.after)
	}
	s.clock.Advance(time.Hour)
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-2", "pool1-1"}) {
		t.Fatalf("donors = %v", got)
	}
	s.end(s.prototypes()[1].Name, v1alpha1.PhaseFailed)
	s.clock.Advance(2 * time.Hour)
	s.runPass()
	s.end(s.prototypes()[2].Name, v1alpha1.PhaseFailed)
	s.drainEvents()
	s.clock.Advance(4 * time.Hour)
	stalled := map[policy.Stall]bool{}
	s.decider.Observers.Stalled = func(all map[policy.Stall]bool) { stalled = all }
	s.runPass()
	if !stalled[policy.Stall{"all", "pool1", v1alpha1.PolicyTooManyFailures}] || len(stalled) != 1 {
		t.Errorf("stalled = %v", stalled)
	}
	s.stalled("all", v1alpha1.PolicyTooManyFailures, "pool pool1", "delete")
	s.decided("all", "pool1", "TooManyFailures")
	if status := s.poolStatus("all", "pool1"); status.Failures != 3 || status.LastResult == nil ||
		!strings.Contains(status.LastResult.Message, "DrainTimeout") {
		t.Errorf("status = %+v", status)
	}
	if !s.heardOf(v1alpha1.PolicyTooManyFailures) {
		t.Error("no event says that the policy stopped")
	}
	for range 3 {
		s.clock.Advance(time.Hour)
		s.runPass()
	}
	if got := s.donors(); len(got) != 3 {
		t.Errorf("donors = %v", got)
	}
	for _, p := range s.prototypes() {
		s.must(s.client.Delete(s.Context(), &p))
	}
	s.runPass()
	if got := s.donors(); len(got) != 1 {
		t.Errorf("donors after the failed ones were deleted = %v", got)
	}
	s.well("all")
}

func TestFailedDonorIsLastChoice(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	s.end(s.prototypes()[0].Name, v1alpha1.PhaseFailed)
	for _, name := range []string{"pool1-0", "pool1-1"} {
		s.change(id, name, func(n *corev1.Node) { n.Annotations[v1alpha1.KuredRebootInProgressAnnotation] = "x" })
	}
	s.clock.Advance(time.Hour)
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-2", "pool1-2"}) {
		t.Errorf("donors = %v", got)
	}
}

// The limit counts nodes out of service in the whole cluster; an image in replication holds no node.
func TestCapturesAtOnce(t *testing.T) {
	s := newTestEnv(t)
	for i := range 4 {
		s.pool(fmt.Sprintf("pool%d", i), 3, 20+i)
	}
	s.policy("all", func(p *v1alpha1.PrototypePolicySpec) { p.MaxConcurrent = 2 })
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool2-2", "pool3-2"}) {
		t.Fatalf("donors = %v, want those of the pools with the oldest images", got)
	}
	s.decided("all", "pool0", policy.Queued, "spec.maxConcurrent")
	if s.decider.MaxConcurrent() != 2 {
		t.Errorf("the engine gets %d", s.decider.MaxConcurrent())
	}

	p := s.prototypes()[0]
	away := metav1.NewMicroTime(s.clock.Now())
	p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: &away, ReleasedAt: &away}
	s.must(s.client.Status().Update(s.Context(), &p))
	s.runPass()
	if got := s.donors(); len(got) != 3 || s.poolStatus("all", "pool1").Prototype == "" {
		t.Errorf("donors = %v", got)
	}
}

// Kamino does not create a Prototype that the engine would refuse: the Prototype would count as a failure.
func TestRefusedPreflightCreatesNoPrototype(t *testing.T) {
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	asked := 0
	s.decider.Preflight = func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		asked++
		return refuseAll("PermissionMissing")(ctx, p)
	}
	for range 5 {
		s.runPass()
		s.clock.Advance(time.Minute)
	}
	s.decided("all", "pool1", "PermissionMissing", "no: pool1-2")
	if asked != 1 || len(s.donors()) > 0 {
		t.Errorf("asked %d times, donors = %v", asked, s.donors())
	}
	// A refusal about one node does not apply to the next node.
	s.decider.Preflight = func(ctx context.Context, p *v1alpha1.Prototype) ([]cloud.Refusal, error) {
		if p.Spec.Donor.NodeName == "pool1-2" {
			return refuseAll("UnmanagedPods")(ctx, p)
		}
		return nil, nil
	}
	s.clock.Advance(time.Hour)
	s.runPass()
	if got := s.donors(); !slices.Equal(got, []string{"pool1-1"}) {
		t.Errorf("donors = %v", got)
	}
}

// TestNoRunIsPromisedOnTheDayOfAVersion, also if a capture failed after the version.
func TestNoRunIsPromisedOnTheDayOfAVersion(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	s.version(id, s.clock.Now(), nil)
	s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(s.clock.Now()))
	s.end(s.prototypes()[0].Name, v1alpha1.PhaseFailed)
	s.clock.Advance(time.Minute)
	s.runPass()
	s.decided("all", "pool1", "CapturedToday")
	if next := s.poolStatus("all", "pool1").NextRun; next == nil || !next.Time.Equal(s.clock.Now().Truncate(24*time.Hour).Add(24*time.Hour)) {
		t.Errorf("the next run is promised at %v, want the next day", next)
	}
}

// TestNoRunIsPromisedWithoutASchedule: while a capture runs, and while a rollback waits for a user, the time does not decide.
func TestNoRunIsPromisedWithoutASchedule(t *testing.T) {
	closed := func(p *v1alpha1.PrototypePolicySpec) { p.Schedule.Cron = "0 3 31 12 *" }
	s := newTestEnv(t)
	s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	s.edit("all", closed)
	s.runPass()
	s.decided("all", "pool1", "CaptureInFlight")
	if next := s.poolStatus("all", "pool1").NextRun; next != nil {
		t.Errorf("a capture is running, and the next one is promised at %v", next)
	}
	s.end(s.prototypes()[0].Name, v1alpha1.PhaseFailed)
	s.runPass()
	if next := s.poolStatus("all", "pool1").NextRun; next == nil || next.Month() != time.December || next.Day() != 31 {
		t.Errorf("next run %v, want the time of the schedule", next)
	}
	h := halfBack(t)
	h.edit("all", closed)
	h.last(1)
	h.decided("all", "pool1", "RollingBack")
	if next := h.poolStatus("all", "pool1").NextRun; next != nil {
		t.Errorf("a rollback is unfinished, and a capture is promised at %v", next)
	}
}

func TestOneVersionADay(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 3, 20)
	s.policy("all", nil)
	s.runPass()
	s.version(id, s.clock.Now(), nil)
	s.cloud.ChangeRecipe(id, string(id)+"/versions/"+imageversion.Of(s.clock.Now()))
	s.end(s.prototypes()[0].Name, v1alpha1.PhaseSucceeded)
	s.clock.Advance(time.Hour)
	s.change(id, "pool1-0", func(n *corev1.Node) {
		n.Annotations[v1alpha1.KuredRebootNeededAnnotation] = s.clock.Now().Add(-20 * time.Minute).Format(time.RFC3339)
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(s.clock.Now().Add(-10 * time.Minute))
	})
	s.runPass()
	s.decided("all", "pool1", "CapturedToday")
	if got := s.poolStatus("all", "pool1"); got.CurrentVersion != imageversion.Of(s.clock.Now()) || got.LastResult.Result != v1alpha1.PhaseSucceeded {
		t.Errorf("status = %+v", got)
	}
	s.clock.Advance(s.after)
	for range 150 { // it is seen every ten minutes whether the pool got something new
		if len(s.donors()) > 1 {
			break
		}
		s.clock.Advance(max(s.after, time.Minute))
		s.runPass()
	}
	if got := s.donors(); !slices.Equal(got, []string{"pool1-2", "pool1-0"}) {
		t.Errorf("donors = %v", got)
	}
}

// On a quiet day with heartbeats and node churn, Kamino asks the cloud less than three times per hour and pool, with at
// most three requests each. Kamino writes no unchanged status.
func TestAQuietDayCostsLittle(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 5, 1)
	s.policy("all", nil)
	s.runPass()
	written := s.status("all").ResourceVersion
	began := s.clock.Now()
	for s.clock.Now().Sub(began) < 11*time.Hour {
		for _, node := range s.nodes.Of(id) {
			beat := node.DeepCopy()
			beat.ResourceVersion = fmt.Sprint(s.clock.Now().UnixNano())
			beat.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(s.clock.Now())
			membership.Strip(beat)
			if s.nodes.Set(beat) {
				t.Fatal("a heartbeat is news")
			}
		}
		s.change(id, "pool1-0", func(n *corev1.Node) { n.Annotations["news"] = fmt.Sprint(s.clock.Now()) })
		s.clock.Advance(5 * time.Minute)
		s.runPass()
	}
	if calls, hours := len(s.calls.Calls()), 12; calls > 2*hours+2 {
		t.Errorf("%d calls to the cloud in %d hours", calls, hours)
	}
	if got := s.status("all").ResourceVersion; got != written {
		t.Errorf("the status was written again: %+v", s.status("all").Status)
	}
}

func TestAPoolThatIsGoneIsForgotten(t *testing.T) {
	s := newTestEnv(t)
	id := s.pool("pool1", 2, 1)
	s.pool("pool2", 2, 1)
	s.policy("all", nil)
	var gone []string
	s.decider.Observers.Gone = func(p policy.PoolRef) { gone = append(gone, p.Name) }
	s.runPass()
	for _, node := range s.nodes.Of(id) {
		s.nodes.Delete(node.Name)
	}
	s.runPass()
	if status := s.status("all").Status; status.PoolCount != 1 || status.Pools[0].Name != "pool2" {
		t.Errorf("status = %+v", status)
	}
	if !slices.Equal(gone, []string{"pool1"}) {
		t.Errorf("gone = %v", gone)
	}
	s.must(s.client.Delete(s.Context(), &v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}))
	s.runPass()
	if err := s.client.Get(s.Context(), client.ObjectKey{Name: "all"}, &v1alpha1.PrototypePolicy{}); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}
