package attention

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

var now = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func micro(d time.Duration) *metav1.MicroTime { t := metav1.NewMicroTime(now.Add(-d)); return &t }

// capture is a Prototype of pool1 in a phase.
func capture(phase v1alpha1.Phase) v1alpha1.Prototype {
	p := v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: "pool1-2026.03.09", UID: "uid-1", CreationTimestamp: ago(time.Hour)}}
	p.Spec.Pool, p.Spec.Version, p.Spec.Donor.NodeName = "pool1", "2026.03.09", "node-1"
	p.Status.Phase = phase
	p.Status.Steps = []v1alpha1.Step{{Phase: phase, StartedAt: *micro(time.Minute)}}
	return p
}

// held is a capture whose donor is out of service for a time.
func held(phase v1alpha1.Phase, away time.Duration) v1alpha1.Prototype {
	p := capture(phase)
	p.Status.Donor = &v1alpha1.DonorStatus{ReservedAt: micro(away)}
	return p
}

// copied is a capture by copy that has reserved its donor for a time.
func copied(phase v1alpha1.Phase, reserved time.Duration) v1alpha1.Prototype {
	p := held(phase, reserved)
	p.Spec.Settings.Donor.Method = v1alpha1.MethodCopy
	return p
}

// policy is a healthy policy of pool1, six hours old, with an image of a day.
func policy(change ...func(*v1alpha1.PoolStatus)) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{ObjectMeta: metav1.ObjectMeta{Name: "nightly", CreationTimestamp: ago(6 * time.Hour)}}
	built := ago(24 * time.Hour)
	s := v1alpha1.PoolStatus{Name: "pool1", ID: "memory:///pools/pool1", CurrentVersion: "2026.03.08", ImageBuiltAt: &built, Nodes: 3, Candidates: 2,
		Decision: &v1alpha1.PoolDecision{Reason: "CapturedToday", Message: "pool pool1 has version 2026.03.09 of today"}}
	for _, f := range change {
		f(&s)
	}
	p.Status.Pools = []v1alpha1.PoolStatus{s}
	return p
}

// with adds a True condition.
func with(p v1alpha1.PrototypePolicy, kind, reason, message string) v1alpha1.PrototypePolicy {
	p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		LastTransitionTime: ago(time.Hour)})
	return p
}

var (
	works = Lease{Known: true, Holder: "the controller kamino-1"}
	dead  = Lease{Known: true, Lost: "the controller kamino-1", Over: now.Add(-10 * time.Second)}
)

// Worlds for tests outside the package.
var (
	Now      = now
	Capture  = capture
	Held     = held
	PolicyOf = policy
	With     = with
	Dead     = dead
	Works    = works
)

// only is the single item of a kind.
func only(t *testing.T, f Facts, kind Kind) Item {
	t.Helper()
	f.Now = now
	var found []Item
	for _, i := range List(f) {
		if i.Kind == kind {
			found = append(found, i)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d items %s in %+v", len(found), kind, List(f))
	}
	return found[0]
}

func TestNothingNeedsAttention(t *testing.T) {
	done := capture(v1alpha1.PhaseSucceeded)
	for name, f := range map[string]Facts{
		"an empty cluster":                {},
		"a healthy pool":                  {Lease: works, Prototypes: []v1alpha1.Prototype{done}, Policies: []v1alpha1.PrototypePolicy{policy()}},
		"a running capture":               {Lease: works, Prototypes: []v1alpha1.Prototype{held(v1alpha1.PhaseStarting, time.Minute)}},
		"an unknown Lease":                {Prototypes: []v1alpha1.Prototype{held(v1alpha1.PhaseStarting, time.Minute)}},
		"a Lease within its term":         {Lease: Lease{Known: true, Lost: "x", Over: now.Add(time.Second)}, Prototypes: []v1alpha1.Prototype{held(v1alpha1.PhaseStarting, time.Minute)}},
		"no controller, and nothing runs": {Lease: Lease{Known: true}, Prototypes: []v1alpha1.Prototype{done}, Policies: []v1alpha1.PrototypePolicy{policy()}},
		"a dead command without policies": {Lease: dead, Prototypes: []v1alpha1.Prototype{done}},
		"a node of a running capture":     {Lease: works, Reserved: []reservations.Node{{Name: "node-1", State: reservations.ByCapture}}},
		"a failure before a success": {Lease: works, Prototypes: []v1alpha1.Prototype{done, func() v1alpha1.Prototype {
			p := capture(v1alpha1.PhaseFailed)
			p.CreationTimestamp, p.Status.Failure = ago(48*time.Hour), &v1alpha1.Failure{Reason: "DrainTimeout"}
			return p
		}()}},
		"a pioneer without patches": {Prototypes: []v1alpha1.Prototype{func() v1alpha1.Prototype {
			p := capture(v1alpha1.PhaseFailed)
			p.Status.Failure = &v1alpha1.Failure{Reason: "NothingToPatch"}
			return p
		}()}},
	} {
		f.Now = now
		if items := List(f); len(items) > 0 {
			t.Errorf("%s: %+v", name, items)
		}
	}
}

// The controller dies while a donor is held: the list names the command that continues, as soon as the Lease's term is over.
func TestNoProcessHoldsADonor(t *testing.T) {
	i := only(t, Facts{Lease: dead, Prototypes: []v1alpha1.Prototype{held(v1alpha1.PhaseStarting, time.Minute)}}, ControllerAbsent)
	if i.Severity != Critical || i.Command != "kamino capture node-1" || !i.Since.Equal(dead.Over) || !strings.Contains(i.Cause, "node-1") {
		t.Errorf("%+v", i)
	}
	failing := held(v1alpha1.PhaseCleaningUp, time.Minute)
	failing.Status.Failure = &v1alpha1.Failure{Reason: "DrainTimeout", Message: "pods"}
	if i := only(t, Facts{Lease: dead, Prototypes: []v1alpha1.Prototype{failing}}, ControllerAbsent); i.Command != "kamino cancel pool1-2026.03.09" {
		t.Errorf("a failed capture: %+v", i)
	}
	released := Lease{Known: true, Over: now.Add(-time.Minute)}
	publishing := Facts{Lease: released, Prototypes: []v1alpha1.Prototype{capture(v1alpha1.PhasePublishing)}}
	if i := only(t, publishing, ControllerAbsent); i.Severity != Warning || i.Command != "kamino capture node-1" {
		t.Errorf("a donor in service: %+v", i)
	}
	if i := only(t, Facts{Lease: dead, Policies: []v1alpha1.PrototypePolicy{policy()}}, ControllerAbsent); i.Severity != Warning || i.Command != controllerPods {
		t.Errorf("a dead controller without work: %+v", i)
	}
}

func TestReleasedBy(t *testing.T) {
	n := reservations.Node{Name: "node-1", State: reservations.ByCapture, Holder: v1alpha1.Holder{Name: "pool1-2026.03.09", UID: "uid-1"}}
	f := Facts{Now: now, Prototypes: []v1alpha1.Prototype{held(v1alpha1.PhaseStarting, time.Minute)}}
	for _, c := range []struct {
		lease Lease
		want  string
	}{
		{works, "automatically"}, {Lease{}, "automatically"}, {dead, "kamino capture node-1 (no process works)"},
	} {
		f.Lease = c.lease
		if got := ReleasedBy(n, f); got != c.want {
			t.Errorf("%+v: %s", c.lease, got)
		}
	}
}

// Nodes of the version in use do not join: the command follows from what a rollback could reach.
func TestNodesDoNotJoin(t *testing.T) {
	late := ago(20 * time.Minute)
	p := policy(func(s *v1alpha1.PoolStatus) {
		s.JoinHealth = &v1alpha1.JoinHealthStatus{Version: "2026.03.09", State: string(joinhealth.Failing), Message: "2 of the last 2 nodes failed", Failed: 2,
			Joins: []v1alpha1.JoinStatus{{Outcome: "Failed", OverdueSince: &late}, {Outcome: "Joined"}}}
	})
	p = with(p, v1alpha1.ConditionDegraded, string(joinhealth.Failing), "2 of the last 2 nodes failed")
	for prior, command := range map[string]string{"": "kamino restore pool1", "2026.03.01": "kamino rollback pool1"} {
		i := only(t, Facts{Lease: works, Policies: []v1alpha1.PrototypePolicy{p}, Pools: []Pool{{Name: "pool1", Prior: prior}}}, NodesDoNotJoin)
		if i.Severity != Critical || i.Command != command || !i.Since.Equal(late.Time) || !strings.HasPrefix(i.Cause, "2 of the last 2 nodes failed") {
			t.Errorf("prior %q: %+v", prior, i)
		}
	}
	if items := OfPolicy(&p, nil, now); len(items) != 1 {
		t.Errorf("said more than once: %+v", items)
	}
	if items := OfPolicy(&p, []Pool{{Name: "pool1", Described: true, Current: "2026.03.01"}}, now); len(items) != 0 {
		t.Errorf("a person has changed the recipe since: %+v", items)
	}
}

// A refused capture says so, with the time of the next attempt, also for the second pool of a policy and for reasons of a cloud.
func TestCaptureRefused(t *testing.T) {
	next := metav1.NewTime(now.Add(12 * time.Minute))
	p := policy(func(s *v1alpha1.PoolStatus) {
		s.Decision, s.NextRun = &v1alpha1.PoolDecision{Reason: cloud.PermissionMissing, Message: "the credential lacks compute/write"}, &next
	})
	other := p.Status.Pools[0]
	other.Name, other.Decision = "pool2", &v1alpha1.PoolDecision{Reason: "OnlyReadyNode", Message: "1 of 1 nodes is Ready"}
	p.Status.Pools = append(p.Status.Pools, other)
	p = with(p, v1alpha1.ConditionDegraded, cloud.PermissionMissing,
		"pool pool1 is not captured: the credential lacks compute/write. Kamino tries again; pool pool2 is not captured: 1 of 1 nodes is Ready. Kamino tries again")
	items := OfPolicy(&p, nil, now)
	if len(items) != 2 || items[0].Kind != CaptureRefused || items[1].Kind != CaptureRefused || items[1].Pool != "pool2" ||
		!items[0].NextAt.Equal(next.Time) || items[0].Command != "kamino doctor pool1" || items[1].Command != "kamino plan pool2" {
		t.Errorf("%+v", items)
	}
}

// A decision that is no trouble is no item, also while another pool is degraded.
func TestDecisionsThatWait(t *testing.T) {
	p := with(policy(), v1alpha1.ConditionDegraded, "OnlyReadyNode", "pool pool2 is not captured: 1 of 1 nodes is Ready")
	other := p.Status.Pools[0]
	other.Name, other.Decision = "pool2", &v1alpha1.PoolDecision{Reason: "OnlyReadyNode", Message: "1 of 1 nodes is Ready"}
	p.Status.Pools = append(p.Status.Pools, other)
	if items := OfPolicy(&p, nil, now); len(items) != 1 || items[0].Pool != "pool2" {
		t.Errorf("%+v", items)
	}
}

// No reason of a condition is silent, whether or not this version knows the reason.
func TestEveryCondition(t *testing.T) {
	reasons := []string{
		v1alpha1.PolicyNoPoolMatches, v1alpha1.PolicyPoolClaimedTwice, v1alpha1.PolicyScheduleInvalid, v1alpha1.PolicyScheduleNeverFires,
		v1alpha1.PolicyExpressionInvalid, v1alpha1.PolicyUnreadable, v1alpha1.PolicyTooManyFailures, v1alpha1.PolicyCloudUnavailable,
		v1alpha1.PolicyPatchesNotChecked, v1alpha1.PolicyPatchesQuarantined, v1alpha1.PolicyManyImages, v1alpha1.PolicyCurrentVersionMissing,
		v1alpha1.PolicyNotRebuilt, v1alpha1.PolicyRollingBack, v1alpha1.PolicyRolledBack, v1alpha1.PolicyPreflightFailed, string(joinhealth.Failing),
		"AReasonOfALaterVersion",
	}
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionDegraded} {
		for _, reason := range reasons {
			p := with(policy(), kind, reason, "what is wrong with pool pool1 is this")
			items := OfPolicy(&p, nil, now)
			if len(items) != 1 || items[0].Reason != reason || !strings.EqualFold(items[0].Cause, "what is wrong with pool pool1 is this") ||
				items[0].Title == "" || strings.Contains(items[0].Title, "%!") || items[0].Next == "" || items[0].Command == "" || items[0].Since.IsZero() {
				t.Errorf("%s %s: %+v", kind, reason, items)
			}
		}
	}
	p := capture(v1alpha1.PhaseStarting)
	for _, reason := range []string{"NotFound", "KuredLockStale", "CaptureAheadStalled", "InService", "NotFoundDoubtful", "HolderUnattended",
		"CopySlow", "Denied"} {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, Message: "this"}}
		items := List(Facts{Now: now, Prototypes: []v1alpha1.Prototype{p}})
		if len(items) != 1 || items[0].Reason != reason || items[0].Cause != "This" || !strings.Contains(items[0].Title, reason) {
			t.Errorf("%s: %+v", reason, items)
		}
	}
}

// A change is new once. Fields that cannot be decoded are in the object before the condition: the condition is new.
func TestNews(t *testing.T) {
	before := policy()
	before.Unreadable = v1alpha1.Unreadable{"spec.settings.keep"}
	after := with(before, v1alpha1.ConditionStalled, v1alpha1.PolicyUnreadable, "cannot be read")
	if news := News(&before, &after, nil, now); len(news) != 1 || news[0].Reason != v1alpha1.PolicyUnreadable {
		t.Errorf("%+v", news)
	}
	if news := News(&after, &after, nil, now); len(news) != 0 {
		t.Errorf("said again: %+v", news)
	}
	if items := OfPolicy(&after, nil, now); len(items) != 1 {
		t.Errorf("said twice at once: %+v", items)
	}
}

// An image ages, or there is none: each state has one item.
func TestImage(t *testing.T) {
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		lives, age time.Duration // of the policy, and of the image; zero: no image
		candidates int32
		change     func(*v1alpha1.PrototypePolicy)
		want       Kind
	}{
		"a young image":               {60 * day, day, 0, nil, ""},
		"an old image":                {60 * day, 31 * day, 2, nil, ImageOld},
		"an old image, no candidates": {60 * day, 31 * day, 0, nil, ImageOld},
		"half as old, no candidates":  {60 * day, 16 * day, 0, nil, NoCandidates},
		"half as old, candidates":     {60 * day, 16 * day, 1, nil, ""},
		"a new policy":                {time.Hour, 0, 0, nil, ""},
		"no image, no candidates":     {2 * day, 0, 0, nil, NoCandidates},
		"no image for three days":     {4 * day, 0, 1, nil, NeverCaptured},
		"suspended":                   {60 * day, 31 * day, 0, func(p *v1alpha1.PrototypePolicy) { p.Spec.Suspend = true }, ""},
		"a dry run":                   {60 * day, 31 * day, 0, func(p *v1alpha1.PrototypePolicy) { p.Spec.DryRun = true }, ""},
		"a running capture":           {60 * day, 31 * day, 0, func(p *v1alpha1.PrototypePolicy) { p.Status.Pools[0].Prototype = "x" }, ""},
		"a policy of an unknown age":  {-1, 0, 0, func(p *v1alpha1.PrototypePolicy) { p.CreationTimestamp = metav1.Time{} }, ""},
		"a base image after a successful": {60 * day, 0, 0, func(p *v1alpha1.PrototypePolicy) {
			p.Status.Pools[0].LastResult = &v1alpha1.CaptureResult{Result: v1alpha1.PhaseSucceeded}
		}, NodesFromGenericImage},
	} {
		p := policy(func(s *v1alpha1.PoolStatus) {
			s.Candidates, s.ImageBuiltAt = c.candidates, nil
			if built := ago(c.age); c.age > 0 {
				s.ImageBuiltAt = &built
			} else {
				s.CurrentVersion = ""
			}
		})
		p.CreationTimestamp = ago(c.lives)
		if c.change != nil {
			c.change(&p)
		}
		switch items := OfPolicy(&p, nil, now); {
		case c.want == "" && len(items) > 0, c.want != "" && (len(items) != 1 || items[0].Kind != c.want):
			t.Errorf("%s: %+v, want %s", name, items, c.want)
		}
	}
}

// The most urgent item is first, and each item has all its words.
func TestOrderAndWords(t *testing.T) {
	f := Facts{Now: now, Lease: dead, Prototypes: []v1alpha1.Prototype{capture(v1alpha1.PhaseAwaitingPromotion), func() v1alpha1.Prototype {
		p := held(v1alpha1.PhaseStarting, 3*time.Hour)
		p.Name, p.Spec.Pool = "pool2-2026.03.09", "pool2"
		return p
	}()}, Reserved: []reservations.Node{
		{Name: "n1", State: reservations.Orphaned, Holder: v1alpha1.Holder{Name: "x", UID: types.UID("gone")}}, {Name: "n2", State: reservations.Stripped},
		{Name: "n3", State: reservations.Unconfirmed}, {Name: "n4", State: reservations.ByReplacement}, {Name: "n5", State: reservations.ByUnknown},
		{Name: "n6", State: reservations.Unreadable},
	}, Leftovers: []reservations.Leftover{{Kind: "snapshot", Name: "s1", Prototype: "x"}}}
	items := List(f)
	if len(items) != 10 {
		t.Fatalf("%d items: %+v", len(items), items)
	}
	if !slices.IsSortedFunc(items, func(a, b Item) int { return a.Severity.rank() - b.Severity.rank() }) || items[0].Severity != Critical ||
		items[len(items)-1].Kind != AwaitingPromotion {
		t.Errorf("order: %+v", items)
	}
	for _, i := range items {
		if i.Title == "" || strings.Contains(i.Title, "%!") || i.Subject == "" || i.Next == "" || i.Command == "" || i.Severity.rank() < 0 {
			t.Errorf("%+v", i)
		}
	}
}

// TestACopiedDonorIsNeverAway: no item says that a donor whose disk is copied is out of service, or must come back.
func TestACopiedDonorIsNeverAway(t *testing.T) {
	failed := copied(v1alpha1.PhaseCleaningUp, 5*time.Hour)
	failed.Status.Failure = &v1alpha1.Failure{Reason: "DonorBusy", Message: "no usable copy"}
	waits := copied(v1alpha1.PhaseSnapshotting, 5*time.Hour)
	waits.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "Denied", Message: "no right"}}
	for name, c := range map[string]struct {
		p        v1alpha1.Prototype
		lease    Lease
		severity Severity
		next     string
	}{
		"it takes long": {copied(v1alpha1.PhaseSnapshotting, 5*time.Hour), Lease{}, "", ""},
		"no process":    {copied(v1alpha1.PhaseSnapshotting, time.Hour), dead, Warning, "nothing, until a controller or a command takes over"},
		"it failed":     {failed, Lease{}, Warning, "Kamino cleans up"},
		"it waits":      {waits, Lease{}, Warning, "the capture continues automatically once the cause is gone"},
	} {
		items := List(Facts{Now: now, Prototypes: []v1alpha1.Prototype{c.p}, Lease: c.lease, Pools: []Pool{{Name: "pool1"}}})
		if c.next == "" && len(items) == 0 {
			continue
		}
		if len(items) != 1 || items[0].Severity != c.severity || items[0].Next != c.next || strings.Contains(items[0].Cause, "service") {
			t.Errorf("%s: %+v", name, items)
		}
	}
}

func TestBackInService(t *testing.T) {
	for _, c := range []struct {
		name string
		p    v1alpha1.Prototype
		want string
	}{
		{"before the snapshot", held(v1alpha1.PhaseDraining, 10*time.Minute),
			"without a snapshot at 12:20 UTC (in 20m00s) the capture fails, and the node is back by 12:35 UTC at the latest"},
		{"after the snapshot", held(v1alpha1.PhaseStarting, 10*time.Minute), "the node is back by 12:35 UTC (in 35m00s) at the latest"},
		{"too late", held(v1alpha1.PhaseStarting, time.Hour), "the node had to be back by 11:45 UTC"},
		{"a pioneer", held(v1alpha1.PhaseSoaking, time.Hour), ""},
		{"in service", capture(v1alpha1.PhasePublishing), ""},
		{"ended", held(v1alpha1.PhaseFailed, time.Hour), ""},
		{"a donor whose disk is copied", copied(v1alpha1.PhaseSnapshotting, time.Hour), ""},
		{"a donor that an earlier version replaces", func() v1alpha1.Prototype {
			p := held(v1alpha1.PhaseSnapshotting, time.Minute)
			p.Status.Record = &v1alpha1.Record{UID: "uid-1", GeneralizeBootID: "boot", Reservation: &v1alpha1.Reservation{Replacement: json.RawMessage(`{}`)}}
			p.Spec.Donor.NodeName = "n"
			return p
		}(), ""},
	} {
		if got := BackInService(&c.p).Text(now); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
