package nodejoin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// daemons is an API server with DaemonSet cni, the pods of cni and pods of other owners.
type daemons struct {
	*fake.Clientset
	set  *appsv1.DaemonSet
	pods []*corev1.Pod
}

func newDaemons(desired, ready int32, pods ...*corev1.Pod) *daemons {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni", UID: "set"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cni"}}
	set.Status.DesiredNumberScheduled, set.Status.NumberReady = desired, ready
	d := &daemons{fake.NewClientset(), set, pods}
	d.PrependReactor("list", "daemonsets", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, &appsv1.DaemonSetList{Items: []appsv1.DaemonSet{*d.set}}, nil
	})
	d.PrependReactor("list", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		asked := action.(kubetesting.ListAction).GetListRestrictions()
		node, byNode := asked.Fields.RequiresExactMatch("spec.nodeName")
		list := &corev1.PodList{}
		for _, pod := range d.pods {
			if (!byNode || pod.Spec.NodeName == node) && asked.Labels.Matches(labels.Set(pod.Labels)) {
				list.Items = append(list.Items, *pod)
			}
		}
		return true, list, nil
	})
	return d
}

// reader returns the reader of the API server.
func (d *daemons) reader() *DaemonSets {
	return &DaemonSets{Kube: d.Clientset, Now: func() time.Time { return noon }}
}

// requests returns the requests since the last call, such as "list pods".
func (d *daemons) requests() (all []string) {
	for _, action := range d.Actions() {
		all = append(all, action.GetVerb()+" "+action.GetResource().Resource)
	}
	d.ClearActions()
	return all
}

func podOn(node string, is corev1.ConditionStatus, restarts int32) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "cni-" + node, CreationTimestamp: metav1.NewTime(ago(40)), Labels: map[string]string{"app": "cni"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "cni", UID: types.UID("set"), Controller: &yes}},
	}}
	pod.Spec.NodeName = node
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(ago(3))}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: restarts}}
	return pod
}

// podsOn returns the pods of the nodes name0 to name<n-1>.
func podsOn(name string, n int, is corev1.ConditionStatus) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, podOn(fmt.Sprintf("%s%d", name, i), is, 0))
	}
	return pods
}

func nodesOf(pods []*corev1.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Spec.NodeName)
	}
	return names
}

func inUTC(lacks map[string]UnhealthyDaemonSet) map[string]UnhealthyDaemonSet {
	for node, lack := range lacks {
		lack.Since = lack.Since.UTC()
		lacks[node] = lack
	}
	return lacks
}

var notReady = UnhealthyDaemonSet{"kube-system/cni", ago(3)}

func TestLacks(t *testing.T) {
	for name, test := range map[string]struct {
		kube   *daemons
		ignore []string
		want   map[string]UnhealthyDaemonSet
	}{
		"Ready":     {newDaemons(10, 9, podOn("new0", corev1.ConditionTrue, 0)), nil, map[string]UnhealthyDaemonSet{}},
		"not Ready": {newDaemons(10, 9, podOn("new0", corev1.ConditionFalse, 0)), nil, map[string]UnhealthyDaemonSet{"new0": notReady}},
		"crashes": {newDaemons(10, 9, podOn("new0", corev1.ConditionFalse, 3)), nil,
			map[string]UnhealthyDaemonSet{"new0": {"kube-system/cni", ago(40)}}},
		"ignored":                {newDaemons(10, 9, podOn("new0", corev1.ConditionFalse, 0)), []string{"kube-system/cni"}, map[string]UnhealthyDaemonSet{}},
		"nowhere Ready":          {newDaemons(10, 0, podOn("new0", corev1.ConditionFalse, 0)), nil, map[string]UnhealthyDaemonSet{}},
		"Ready on few of others": {newDaemons(11, 7, podOn("new0", corev1.ConditionFalse, 0)), nil, map[string]UnhealthyDaemonSet{}},
		"on no other node":       {newDaemons(1, 0, podOn("new0", corev1.ConditionFalse, 0)), nil, map[string]UnhealthyDaemonSet{}},
		"both new ones, not Ready": {newDaemons(10, 8, podOn("new0", corev1.ConditionFalse, 0), podOn("new1", corev1.ConditionFalse, 0)), nil,
			map[string]UnhealthyDaemonSet{"new0": notReady, "new1": notReady}},
		"none there yet": {newDaemons(9, 8), nil, map[string]UnhealthyDaemonSet{}},
	} {
		got, err := test.kube.reader().Unhealthy(t.Context(), []string{"new0", "new1"}, test.ignore)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, inUTC(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestARolloutThatPassesBy: pods of a new template show nothing before such pods are Ready on other nodes. Of two pods on a
// node, the younger one is judged.
func TestARolloutThatPassesBy(t *testing.T) {
	of := func(node, generation string, is corev1.ConditionStatus, age int) *corev1.Pod {
		pod := podOn(node, is, 0)
		pod.Labels[generationLabel], pod.CreationTimestamp = generation, metav1.NewTime(ago(age))
		return pod
	}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	for name, test := range map[string]struct {
		updated int32
		pods    []*corev1.Pod
		lacks   bool
	}{
		"before the rollout":          {10, []*corev1.Pod{of("new0", "2", no, 40)}, true},
		"a pod of the old template":   {3, []*corev1.Pod{of("new0", "1", no, 40), of("old0", "2", yes, 40)}, true},
		"the first of the new":        {3, []*corev1.Pod{of("new0", "2", no, 40), of("old0", "1", yes, 40)}, false},
		"the new is not Ready either": {3, []*corev1.Pod{of("new0", "2", no, 40), of("old0", "2", no, 40)}, false},
		"the new is Ready elsewhere":  {3, []*corev1.Pod{of("new0", "2", no, 40), of("old0", "2", yes, 40)}, true},
		"replaced, and Ready":         {10, []*corev1.Pod{of("new0", "2", yes, 4), of("new0", "1", no, 40)}, false},
		"replaced, and not Ready":     {10, []*corev1.Pod{of("new0", "1", yes, 40), of("new0", "2", no, 4)}, true},
	} {
		d := newDaemons(10, 9, test.pods...)
		d.set.Annotations, d.set.Status.UpdatedNumberScheduled = map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}, test.updated
		if got, err := d.reader().Unhealthy(t.Context(), []string{"new0"}, nil); err != nil || (len(got) > 0) != test.lacks {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestSinceWhenAPodIsNotReady by a kubelet whose clock may be wrong.
func TestSinceWhenAPodIsNotReady(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   int // minutes ago
	}{
		"its own time":     {func(*corev1.Pod) {}, 3},
		"a day behind":     {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ago(24 * 60)) }, 40},
		"a day ahead":      {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(ago(-24 * 60)) }, 40},
		"seconds ahead":    {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(time.Second)) }, -1},
		"a crash loop":     {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 3 }, 40},
		"a second restart": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 2 }, 3},
		"a crash after a long run": {func(p *corev1.Pod) {
			c := &p.Status.ContainerStatuses[0]
			c.RestartCount, c.LastTerminationState.Terminated = 5,
				&corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(ago(30)), FinishedAt: metav1.NewTime(ago(3))}
		}, 3},
	} {
		pod := podOn("new0", corev1.ConditionFalse, 0)
		test.change(pod)
		if since := notReadySince(pod, noon); !since.Equal(ago(test.want)) && (test.want >= 0 || !since.After(noon)) {
			t.Errorf("%s: since %s", name, since)
		}
	}
}

// TestHealthyDaemonSetsCostOneRequest for any number of pools and nodes.
func TestHealthyDaemonSetsCostOneRequest(t *testing.T) {
	d := newDaemons(2000, 2000)
	now := noon
	looks := &DaemonSets{Kube: d, Now: func() time.Time { return now }}
	ask := func(pools int, ctx context.Context) {
		for pool := range pools {
			if got, err := looks.Unhealthy(ctx, nodesOf(podsOn(fmt.Sprintf("pool%d-", pool), 20, corev1.ConditionTrue)), nil); err != nil || len(got) > 0 {
				t.Fatalf("%v, %v", got, err)
			}
		}
	}
	ask(100, t.Context())
	if got := d.requests(); !slices.Equal(got, []string{"list daemonsets"}) {
		t.Errorf("%v", got)
	}
	if _, err := looks.Unhealthy(t.Context(), nil, nil); err != nil || len(d.requests()) > 0 {
		t.Errorf("nodes that are none cost a request: %v", err)
	}
	now = now.Add(daemonLookLife)
	ask(1, t.Context())
	if got := d.requests(); !slices.Equal(got, []string{"list daemonsets"}) {
		t.Errorf("later: %v", got)
	}
}

// TestRequestsDoNotGrowWithTheNodes: above a limit of nodes, the pods of the failing DaemonSet are listed instead.
func TestRequestsDoNotGrowWithTheNodes(t *testing.T) {
	bad := podsOn("new", 30, corev1.ConditionTrue)
	bad[29] = podOn("new29", corev1.ConditionFalse, 0)
	d := newDaemons(1000, 999, bad...)
	looks := d.reader()
	for pool := range 30 { // each pool has one of the nodes
		got, err := looks.Unhealthy(t.Context(), []string{fmt.Sprintf("new%d", pool)}, nil)
		if want := pool == 29; err != nil || (len(got) > 0) != want {
			t.Errorf("pool %d: %v, %v", pool, got, err)
		}
	}
	if got := d.requests(); len(got) != 1+maxNodes+1 {
		t.Errorf("%d requests: %v", len(got), got)
	}
	looks = d.reader()
	got, err := looks.Unhealthy(t.Context(), nodesOf(bad), nil)
	if diff := cmp.Diff(map[string]UnhealthyDaemonSet{"new29": notReady}, inUTC(got)); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	if got := d.requests(); !slices.Equal(got, []string{"list daemonsets", "list pods"}) {
		t.Errorf("%v", got)
	}
}

// TestForgedNodesHideNoOther: an account that may create Nodes creates more Nodes than any limit, and a DaemonSet gets
// pods that never start.
func TestForgedNodesHideNoOther(t *testing.T) {
	forged := podsOn("forged", 30, corev1.ConditionFalse)
	old := podsOn("old", 10, corev1.ConditionTrue)
	bad := podOn("new0", corev1.ConditionFalse, 0)
	all := slices.Concat(forged, old, []*corev1.Pod{bad})
	serving := func(twins bool) func() (map[string]string, int) {
		instances := map[string]string{"new0": "id-new0"}
		for i, name := range nodesOf(old) {
			instances[name] = "id-" + name
			if twins {
				instances[nodesOf(forged)[i]] = "id-" + name
			}
		}
		return func() (map[string]string, int) { return instances, len(forged) }
	}
	for name, test := range map[string]struct {
		nodes   []string
		serving func() (map[string]string, int)
	}{
		"older than the new node, in its pool": {append(nodesOf(forged), "new0"), nil},
		"of no pool, or not Ready":             {[]string{"new0"}, serving(false)},
		"twins of the others' instances":       {[]string{"new0"}, serving(true)},
	} {
		d := newDaemons(41, 10, all...)
		looks := d.reader()
		looks.Serving = test.serving
		got, err := looks.Unhealthy(t.Context(), test.nodes, nil)
		if inUTC(got)["new0"] != notReady || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if n := len(d.requests()); n > 3 {
			t.Errorf("%s: %d requests", name, n)
		}
	}
}

// TestADaemonSetThatFailsEverywhereIsNotListed: the list would be long, and the cause is in no single pod.
func TestADaemonSetThatFailsEverywhereIsNotListed(t *testing.T) {
	d := newDaemons(10_000, 500, podOn("new0", corev1.ConditionFalse, 0))
	looks := d.reader()
	looks.Serving = func() (map[string]string, int) { return nil, 200 }
	if got, err := looks.Unhealthy(t.Context(), []string{"new0"}, nil); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got := d.requests(); !slices.Equal(got, []string{"list daemonsets"}) {
		t.Errorf("%v", got)
	}
}

// TestALookThatFailedIsMadeAgain by the next pool. A pool waits for the request of another pool only until its context
// ends.
func TestALookThatFailedIsMadeAgain(t *testing.T) {
	d := newDaemons(10, 9, podOn("new0", corev1.ConditionFalse, 0))
	fails, looking, goOn := true, make(chan bool), make(chan bool)
	d.PrependReactor("list", "daemonsets", func(kubetesting.Action) (bool, runtime.Object, error) {
		if fails {
			looking <- true
			<-goOn
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	looks := d.reader()
	failed := make(chan error, 1)
	go func() {
		_, err := looks.Unhealthy(t.Context(), []string{"new0"}, nil)
		failed <- err
	}()
	<-looking
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := looks.Unhealthy(over, []string{"new0"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("one that waits for another: %v", err)
	}
	close(goOn)
	if err := <-failed; err == nil {
		t.Error("the look did not fail")
	}
	fails = false
	if got, err := looks.Unhealthy(t.Context(), []string{"new0"}, nil); err != nil || len(got) != 1 {
		t.Errorf("again: %v, %v", got, err)
	}
}
