package nodejoin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

var noon = time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)

func ago(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }

func ready(n *corev1.Node, since time.Time) {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
}

// TestNodes has a row for each state of an instance and its node.
func TestNodes(t *testing.T) {
	made := cloud.Image{Version: "2026.03.08", Tags: map[string]string{cloud.TagBuiltAt: ago(600).Format(cloud.BuiltAtLayout)}}
	fresh := cloud.Instance{ID: "X://1", BuiltFrom: "2026.03.08", CreatedAt: ago(30).Add(123 * time.Millisecond), Power: cloud.PowerRunning}
	for name, test := range map[string]struct {
		instance func(*cloud.Instance)
		node     func(*corev1.Node) // nil: no Node
		change   func(*joinhealth.Node)
		gone     bool
	}{
		"Ready":         {nil, func(*corev1.Node) {}, nil, false},
		"without Node":  {nil, nil, func(n *joinhealth.Node) { n.Name, n.Ready, n.Changed = "", false, time.Time{} }, false},
		"being removed": {func(i *cloud.Instance) { i.Removing = true }, func(*corev1.Node) {}, nil, true},
		"stopped": {func(i *cloud.Instance) { i.Power = cloud.PowerStopped }, func(*corev1.Node) {},
			func(n *joinhealth.Node) { n.ExcludedReason = "the instance is stopped" }, false},
		"rebuilt": {func(i *cloud.Instance) { i.CreatedAt = ago(900) }, func(*corev1.Node) {},
			func(n *joinhealth.Node) {
				n.Running, n.ExcludedReason = ago(900), "the instance was rebuilt, and the cloud does not report the time"
			}, false},
		"long without Node": {func(i *cloud.Instance) { i.CreatedAt, i.BuiltFrom = ago(2000), "" }, nil, func(n *joinhealth.Node) {
			*n = joinhealth.Node{Instance: "X://1", Running: ago(2000), ExcludedReason: "is without a Node for so long that an earlier Node is unknown"}
		}, false},
		"Node being deleted": {nil, func(n *corev1.Node) { at := metav1.NewTime(noon); n.DeletionTimestamp = &at },
			func(n *joinhealth.Node) { n.ExcludedReason = "the Node is being deleted" }, false},
		"held": {nil, func(n *corev1.Node) {
			n.Annotations, n.Spec.Unschedulable = map[string]string{v1alpha1.ReservationAnnotation: "{}"}, true
		}, func(n *joinhealth.Node) { n.ExcludedReason = "is held by Kamino" }, false},
		"cordoned": {nil, func(n *corev1.Node) { n.Spec.Unschedulable = true }, func(n *joinhealth.Node) { n.ExcludedReason = "is cordoned" }, false},
		"evicted": {nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: shutdownTaint}} },
			func(n *joinhealth.Node) { n.ExcludedReason = "has the taint " + shutdownTaint }, false},
		"scaled in": {nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "mine"}, {Key: autoscalerTaint}} },
			func(n *joinhealth.Node) { n.ExcludedReason = "has the taint " + autoscalerTaint }, false},
		"a taint of others": {nil, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "mine"}} }, nil, false},
		"a cloud without times": {func(i *cloud.Instance) { i.CreatedAt = time.Time{} }, func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(ago(20)) },
			func(n *joinhealth.Node) { n.Running = ago(20) }, false},
		"lacks a DaemonSet": {nil, func(n *corev1.Node) { n.Name = "lame" },
			func(n *joinhealth.Node) {
				n.Name, n.UnhealthyDaemonSet, n.UnhealthySince = "lame", "kube-system/cni", ago(12)
			}, false},
	} {
		t.Run(name, func(t *testing.T) {
			instance := fresh
			if test.instance != nil {
				test.instance(&instance)
			}
			seen := Observation{Now: noon, Instances: []cloud.Instance{instance}, Images: []cloud.Image{made},
				UnhealthyDaemonSets: map[string]UnhealthyDaemonSet{"lame": {"kube-system/cni", ago(12)}}}
			if test.node != nil {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "x://1"}}
				ready(n, ago(28))
				test.node(n)
				seen.Nodes = []*corev1.Node{n}
			}
			want := joinhealth.Node{Instance: "X://1", Name: "n", Version: "2026.03.08", Running: ago(30), Ready: true, Changed: ago(28)}
			if test.change != nil {
				test.change(&want)
			}
			got := Nodes(seen)
			if test.gone {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if diff := cmp.Diff([]joinhealth.Node{want}, got); diff != "" {
				t.Error(diff)
			}
			for i := range seen.Nodes {
				seen.Nodes[i] = Strip(seen.Nodes[i])
			}
			if diff := cmp.Diff(got, Nodes(seen)); diff != "" {
				t.Errorf("stripped, it says something else: %s", diff)
			}
		})
	}
}

// TestNodesOfAnotherSpelling: the cloud's comparison of IDs finds the Node.
func TestNodesOfAnotherSpelling(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "x://one"}}
	same := func(a, b cloud.InstanceID) bool { return a == "x://one" && b == "x://1" || a == b }
	got := Nodes(Observation{Now: noon, Instances: []cloud.Instance{{ID: "x://1", CreatedAt: ago(1)}}, Nodes: []*corev1.Node{n}, Same: same})
	if len(got) != 1 || got[0].Name != "n" {
		t.Errorf("%+v", got)
	}
}

// TestMemory: of many joins, the newest are kept. A report restores the joins unchanged.
func TestMemory(t *testing.T) {
	var joins []joinhealth.Join
	for i := range 40 {
		joins = append(joins, joinhealth.Join{
			Instance: cloud.InstanceID(fmt.Sprint(i)), Node: "n", Version: "2026.3.8", Running: ago(200 - i), Outcome: joinhealth.Joined, Took: time.Minute,
		})
	}
	joins[39].Outcome, joins[39].Why, joins[39].OverdueSince = joinhealth.Failed, "there is no Node", ago(3)
	joins = append(joins,
		joinhealth.Join{Instance: "late", Version: "2026.03.08", Running: ago(20), Outcome: joinhealth.Waiting, OverdueSince: ago(2)},
		joinhealth.Join{Instance: "new", Version: "2026.03.08", Running: ago(2), Outcome: joinhealth.Waiting},
		joinhealth.Join{Instance: "aside", Version: "2026.03.08", Running: ago(2), Outcome: joinhealth.Uncounted},
		joinhealth.Join{Instance: "old", Version: "2026.03.01", Running: ago(2), Outcome: joinhealth.Failed})
	memory := Memory(joins, "2026.03.08")
	var ids []string
	for _, join := range memory {
		ids = append(ids, string(join.Instance))
	}
	if len(ids) != 26 || !slices.Equal(ids[:2], []string{"15", "16"}) || !slices.Equal(ids[23:], []string{"38", "39", "late"}) {
		t.Errorf("%v", ids)
	}
	back := Before(Status("2026.03.08", joinhealth.Verdict{State: joinhealth.Watching}, joins, "", nil))
	for i := range memory {
		memory[i].Version = "2026.03.08"
	}
	if diff := cmp.Diff(memory, back); diff != "" {
		t.Error(diff)
	}
	kept := Keep(slices.Clone(joins), []joinhealth.Node{{Instance: "5"}, {Instance: "new"}}, "2026.03.08")
	if len(kept) != 28 || !slices.ContainsFunc(kept, func(j joinhealth.Join) bool { return j.Instance == "5" }) {
		t.Errorf("%d are kept", len(kept))
	}
	if Before(nil) != nil || Status("", joinhealth.Verdict{}, joins, "", nil) != nil {
		t.Error("something is said of no version")
	}
}

// TestMemoryKeepsTheVerdict: the kept joins give the same verdict as all joins, and fit into a report.
func TestMemoryKeepsTheVerdict(t *testing.T) {
	fired := 0
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(0, 100).Draw(t, "length")
		often := rapid.SampledFrom([]string{"JJJJF", "JJF", "JF"}).Draw(t, "often")
		word := rapid.StringOfN(rapid.RuneFrom([]rune(often)), length, length, -1).Draw(t, "word")
		var joins []joinhealth.Join
		for i, letter := range word {
			outcome := map[rune]joinhealth.Outcome{'J': joinhealth.Joined, 'F': joinhealth.Failed}[letter]
			joins = append(joins, joinhealth.Join{Instance: cloud.InstanceID(fmt.Sprint(i)), Version: "v", Running: ago(400 - i), Outcome: outcome})
		}
		verdict := func(joins []joinhealth.Join) joinhealth.Verdict {
			return joinhealth.Decide(joinhealth.Facts{Now: noon, Current: "v", Prior: "u", Others: 1, OthersReady: 1, Joins: joins})
		}
		kept := Memory(joins, "v")
		if len(kept)+rememberedOpen > 64 {
			t.Fatalf("%d are kept", len(kept))
		}
		whole, remembered := verdict(joins), verdict(kept)
		if whole.State == joinhealth.Failing {
			fired++
		}
		if whole.State != remembered.State || whole.Do != remembered.Do || len(whole.Failed) != len(remembered.Failed) {
			t.Fatalf("%s is made of %s: %v", remembered.State, whole.State, kept)
		}
	})
	if fired == 0 {
		t.Error("nothing fired, so that nothing is shown")
	}
}

func TestStatus(t *testing.T) {
	s := Status("2026.03.08", joinhealth.Verdict{State: joinhealth.Failing, Message: "so"}, []joinhealth.Join{
		{Instance: "1", Version: "2026.03.08", Running: ago(9), Outcome: joinhealth.Joined, Took: 90 * time.Second},
		{Instance: "2", Version: "2026.03.08", Running: ago(8), Outcome: joinhealth.Failed, Why: "late"},
		{Instance: "3", Version: "2026.03.08", Running: ago(7), Outcome: joinhealth.Waiting},
	}, "3 of 14 Ready, before: 40 of 41", &history.AutoRollback{Version: "2026.03.07", At: ago(60)})
	if s.State != "NodesDoNotJoin" || s.Message != "so" || s.Joined != 1 || s.Failed != 1 || s.Waiting != 1 || s.Cohorts != "3 of 14 Ready, before: 40 of 41" ||
		s.Suspect != "2026.03.07" || !s.RolledBackAt.Time.Equal(ago(60)) || len(s.Joins) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestYoung(t *testing.T) {
	for name, test := range map[string]struct {
		join joinhealth.Join
		want bool
	}{
		"awaited":             {joinhealth.Join{Version: "1.0.0", Running: ago(500), Outcome: joinhealth.Waiting}, true},
		"awaited, never made": {joinhealth.Join{Version: "1.0.0", Outcome: joinhealth.Waiting}, false},
		"joined":              {joinhealth.Join{Version: "1.0.0", Running: ago(59), Outcome: joinhealth.Joined}, true},
		"joined long ago":     {joinhealth.Join{Version: "1.0.0", Running: ago(61), Outcome: joinhealth.Joined}, false},
		"failed":              {joinhealth.Join{Version: "1.0.0", Running: ago(20), Outcome: joinhealth.Failed}, false},
		"of another":          {joinhealth.Join{Version: "1.0.1", Running: ago(20), Outcome: joinhealth.Waiting}, false},
	} {
		if got := Young([]joinhealth.Join{test.join}, "1.0.0", noon, joinhealth.Limits{}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestLimits(t *testing.T) {
	got := Limits(v1alpha1.RollbackSettings{JoinTimeout: metav1.Duration{Duration: time.Minute}})
	if got.Join != time.Minute || got.Watch != time.Hour {
		t.Errorf("%+v", got)
	}
}
