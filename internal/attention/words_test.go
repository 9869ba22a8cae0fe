package attention_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
)

// words are all words of an item. Times are those of the day of the tests.
type words struct {
	Severity, Kind, Reason, Subject, Pool, Since, Title, Cause, Next, NextAt, Command string
}

func wordsOf(i attention.Item) words {
	clock := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return attention.Clock(at, attention.Now)
	}
	return words{string(i.Severity), string(i.Kind), i.Reason, i.Subject, i.Pool, clock(i.Since), i.Title, i.Cause, i.Next, clock(i.NextAt), i.Command}
}

// alertWorlds are the states of the alerts.
func alertWorlds() map[string]attention.Facts {
	all := map[string]attention.Facts{}
	for name, s := range states() {
		all[name] = s.facts
	}
	return all
}

// worlds are states without an alert of their own. Each has one item.
func worlds() map[string]attention.Facts {
	all := map[string]attention.Facts{}
	holder := v1alpha1.Holder{Kind: v1alpha1.HolderPrototype, Name: "pool1-2026.03.08", UID: "gone"}
	for _, state := range []reservations.State{reservations.ByReplacement, reservations.ByUnknown, reservations.Orphaned, reservations.Unreadable,
		reservations.Stripped, reservations.Unconfirmed} {
		n := reservations.Node{Name: "node-1", State: state, Holder: holder, Since: attention.Now.Add(-time.Hour)}
		all["a node: "+string(state)] = attention.Facts{Reserved: []reservations.Node{n}}
	}
	orphan := reservations.Node{Name: "node-1", State: reservations.Orphaned, Holder: holder}
	sweeps := attention.Works
	sweeps.Sweeps = true
	all["an orphan, with a controller"] = attention.Facts{Lease: sweeps, Reserved: []reservations.Node{orphan}}
	left := []reservations.Leftover{{Kind: reservations.Snapshot, Name: "s1", Prototype: "p"}}
	all["a leftover"] = attention.Facts{Leftovers: left}
	held := []reservations.Leftover{{Kind: reservations.Snapshot, Name: "s1", Prototype: "p", HeldBy: "image ami-1", Release: "aws ec2 deregister-image --image-id ami-1"}}
	all["a held leftover"] = attention.Facts{Leftovers: held}
	all["a held leftover, with a controller"] = attention.Facts{Lease: sweeps, Leftovers: held}
	all["a leftover, with a controller"] = attention.Facts{Lease: sweeps, Leftovers: left}
	all["the node of a trial, with a controller"] = attention.Facts{Lease: sweeps,
		Leftovers: []reservations.Leftover{{Kind: reservations.TrialNode, Name: "node-9", Prototype: "p"}}}
	all["a quarantined version"] = attention.Facts{Pools: []attention.Pool{{Name: "pool1", Prior: "2026.03.01", Quarantined: "version 2026.03.08: bad"}}}
	rolling := cloud.Refuse(v1alpha1.PolicyRollingBack, "pool pool1 is rolling back", "run `kamino rollback pool1`")
	all["a running rollback"] = attention.Facts{Pools: []attention.Pool{{Name: "pool1", Rollback: &rolling}}}
	for _, kind := range []cloud.Kind{cloud.Denied, cloud.Unauthenticated, cloud.Unavailable} {
		all["a pool: "+string(kind)] = attention.Facts{Pools: []attention.Pool{{Name: "pool1", Fault: "no answer", FaultKind: kind}}}
	}
	all["a held donor, no process"] = prototype(attention.Held(v1alpha1.PhaseDraining, time.Minute), nil)
	dead := all["a held donor, no process"]
	dead.Lease = attention.Dead
	all["a held donor, no process"] = dead
	all["a failed capture holds its donor"] = prototype(attention.Held(v1alpha1.PhaseCleaningUp, time.Minute), fails("DrainTimeout"))
	all["a failed capture cleans up"] = prototype(attention.Capture(v1alpha1.PhaseCleaningUp), fails("ImageFailed"))
	again := prototype(attention.Capture(v1alpha1.PhaseFailed), fails("ImageFailed"))
	again.Policies = []v1alpha1.PrototypePolicy{attention.PolicyOf(func(s *v1alpha1.PoolStatus) {
		next := metav1.NewTime(attention.Now.Add(time.Hour))
		s.NextRun = &next
	})}
	all["a failed capture, with a policy"] = again
	for _, kind := range []cloud.Kind{cloud.Unavailable, cloud.Throttled} {
		all["a capture waits for the cloud: "+string(kind)] = prototype(attention.Held(v1alpha1.PhaseStarting, time.Minute), func(p *v1alpha1.Prototype) {
			p.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: string(kind), Message: "start: no"}}
		})
	}
	all["a version for another tool"] = prototype(attention.Capture(v1alpha1.PhaseAwaitingPromotion), func(p *v1alpha1.Prototype) {
		p.Status.Recipe = &v1alpha1.RecipeStatus{HandOver: "run kops update"}
	})
	all["an unreadable capture"] = prototype(attention.Capture(v1alpha1.PhaseDraining), func(p *v1alpha1.Prototype) { p.Unreadable = v1alpha1.Unreadable{"spec.x"} })
	all["an unreadable, ended capture"] = prototype(attention.Capture(v1alpha1.PhaseSucceeded), func(p *v1alpha1.Prototype) {
		p.Unreadable = v1alpha1.Unreadable{"spec.x"}
	})
	all["a stalled capture holds its donor"] = prototype(attention.Held(v1alpha1.PhaseDraining, time.Minute), func(p *v1alpha1.Prototype) {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "KuredLockStale", Message: "a lock"}}
	})
	for _, reason := range []string{v1alpha1.PolicyNoPoolMatches, v1alpha1.PolicyNotRebuilt, v1alpha1.PolicyCloudUnavailable, v1alpha1.PolicyRollingBack,
		v1alpha1.PolicyCurrentVersionMissing} {
		all["a policy: "+reason] = attention.Facts{Policies: []v1alpha1.PrototypePolicy{
			attention.With(attention.PolicyOf(), v1alpha1.ConditionStalled, reason, "pool pool1 is wrong")}}
	}
	all["a permission"] = says(v1alpha1.ConditionDegraded, cloud.PermissionMissing, "the credential lacks snapshots/write")
	return all
}

// testWords compares the item of each world.
func testWords(t *testing.T, want map[string]words, all map[string]attention.Facts) {
	t.Helper()
	for name, f := range all {
		f.Now = attention.Now
		items := attention.List(f)
		if len(items) != 1 {
			t.Errorf("%s: %+v", name, items)
			continue
		}
		if diff := cmp.Diff(want[name], wordsOf(items[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name := range want {
		if _, is := all[name]; !is {
			t.Errorf("%s has no world", name)
		}
	}
}

// TestSentence is the item in one line, for events and notices.
func TestSentence(t *testing.T) {
	at := attention.Now.Add(time.Hour)
	for _, c := range []struct {
		item attention.Item
		want string
	}{
		{attention.Item{Title: "It burns.", Next: "nothing"}, "It burns. Next: nothing"},
		{attention.Item{Title: "It burns.", Cause: "A spark", Next: "nothing"}, "It burns. A spark. Next: nothing"},
		{attention.Item{Title: "It burns.", Next: "rain", NextAt: at}, "It burns. Next: rain, at 2026-03-09 13:00 UTC"},
	} {
		if got := c.item.Sentence(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestTimes: another day has a date, and a future time has its distance.
func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:               "12:00 UTC",
		-time.Hour:      "11:00 UTC",
		time.Hour:       "13:00 UTC (in 1h00m)",
		-24 * time.Hour: "2026-03-08 12:00 UTC",
		24 * time.Hour:  "2026-03-10 12:00 UTC (in 1d0h)",
	} {
		if got := attention.When(attention.Now.Add(d), attention.Now); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

// TestOfPools keeps the items about the pools and about the whole cluster, and Urgent counts no information.
func TestOfPools(t *testing.T) {
	items := []attention.Item{
		{Severity: attention.Critical},
		{Severity: attention.Warning, Pool: "pool1"},
		{Severity: attention.Info, Pool: "pool1"},
		{Severity: attention.Warning, Pool: "pool2"},
	}
	if got := attention.OfPools(items, "pool1"); len(got) != 3 || attention.Urgent(got) != 2 {
		t.Errorf("%+v", got)
	}
	if got := attention.OfPools(items); len(got) != 1 || attention.Urgent(items) != 3 {
		t.Errorf("%+v", got)
	}
}

// TestProgress: without a process, what a capture does is of the past. A version that waits for approval needs no process.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		phase          v1alpha1.Phase
		lease          attention.Lease
		progress, want string
	}{
		{v1alpha1.PhaseRunningTrial, attention.Works, "watched until 12:15:00Z", "watched until 12:15:00Z"},
		{v1alpha1.PhaseRunningTrial, attention.Dead, "watched until 12:15:00Z",
			"no process works on the capture; the last one said: watched until 12:15:00Z"},
		{v1alpha1.PhaseStarting, attention.Dead, "", "no process works on the capture"},
		{v1alpha1.PhaseAwaitingPromotion, attention.Dead, "waits", "waits"},
		{v1alpha1.PhaseSucceeded, attention.Dead, "", ""},
	} {
		p, other := attention.Capture(c.phase), attention.Capture(v1alpha1.PhasePublishing)
		p.Status.Progress, other.Name = c.progress, "other"
		items := attention.List(attention.Facts{Now: attention.Now, Lease: c.lease, Prototypes: []v1alpha1.Prototype{p, other}})
		if got := attention.Progress(&p, items); got != c.want {
			t.Errorf("%s: %q, want %q", c.phase, got, c.want)
		}
	}
}
