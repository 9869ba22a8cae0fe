package trialnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
)

// pool adds Ready nodes with kubelets, and the cloud's list of instances. instances w-* have another version.
func (w *testEnv) pool(names ...string) {
	w.Helper()
	instances := []cloud.Instance{{ID: "cloud:///T-0", BuiltFrom: "new"}}
	for _, name := range names {
		w.node(name, true)
		w.heart(name)
		w.allocates(name, "110")
		instances = append(instances, cloud.Instance{ID: cloud.InstanceID("cloud:///" + strings.ToUpper(name))})
	}
	w.subject.Spec.Version = "new"
	w.subject.PoolInstances = func() ([]cloud.Instance, error) { return instances, nil }
}

func (w *testEnv) allocates(name, pods string) {
	w.Helper()
	n := w.get(name)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.NodeInfo.KubeletVersion = "v1.37.1"
	if _, err := w.kube.CoreV1().Nodes().UpdateStatus(w.Context(), n, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *testEnv) trialNode(pods string) {
	w.Helper()
	w.node("t-0", true)
	w.heart("t-0")
	w.allocates("t-0", pods)
}

// differences are the names of the differences, and the time of the first.
func differences(c *trial.PeerComparison) (names []string, since time.Time) {
	if c == nil {
		return nil, since
	}
	for _, d := range c.Differences {
		names, since = append(names, d.Name), d.Since
	}
	return names, since
}

// TestANodeIsComparedWithItsPool: a difference keeps the time of its first comparison, and ends with a comparison
// without the difference.
func TestANodeIsComparedWithItsPool(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1", "w-2")
	w.trialNode("8")
	differs := func(f trial.Facts) bool {
		names, since := differences(f.Comparison)
		return slices.Equal(names, []string{"allocatable/pods"}) && since.Equal(noon)
	}
	f := w.observeUntil("fewer pods", func(f trial.Facts) bool { return f.Ready && len(w.recordOf("t-0").Comparison.Differences) > 0 })
	if !differs(f) || f.Comparison.Others != 2 || f.Comparison.Skipped != "" {
		t.Fatalf("%+v", f.Comparison)
	}
	for _, after := range []time.Duration{time.Minute, 3 * time.Minute, 5 * time.Minute} {
		if f = w.at(after).observeUntil("again", nil); !differs(f) || alikeResult(f).Result == trial.Failed {
			t.Errorf("after %s: %+v %v", after, f.Comparison, alikeResult(f))
		}
	}
	f = w.at(6*time.Minute).observeUntil("the end", nil)
	if c := alikeResult(f); c.Result != trial.Failed || !strings.Contains(c.Message, "allocatable pods is 8, and at least 110 on other nodes") {
		t.Errorf("%+v", c)
	}
	w.allocates("t-0", "110")
	if f = w.at(8*time.Minute).observeUntil("the end of the difference", func(f trial.Facts) bool {
		w.subject.Facts.Now = w.subject.Facts.Now.Add(2 * time.Minute)
		return len(f.Comparison.Differences) == 0
	}); alikeResult(f).Result != trial.Passed {
		t.Errorf("%+v", f.Comparison)
	}
}

// alikeResult is the check of the verdict.
func alikeResult(f trial.Facts) trial.Check {
	for _, c := range trial.Judge(f).Checks {
		if c.Name == trial.Differences {
			return c
		}
	}
	return trial.Check{}
}

// TestBetweenComparisonsNothingIsRead: a comparison costs requests.
func TestBetweenComparisonsNothingIsRead(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1", "w-2")
	w.trialNode("110")
	w.observeUntil("a comparison", func(f trial.Facts) bool { return f.Comparison != nil && f.Comparison.Others == 2 })
	w.subject.PoolInstances = func() ([]cloud.Instance, error) { return nil, errors.New("asked again") }
	w.at(time.Minute).observeUntil("no comparison", nil)
	if _, err := w.at(3 * time.Minute).lookOnce(); err == nil || err.Error() != "asked again" {
		t.Errorf("%v", err)
	}
}

// TestForgedPeersAreNamed: a Node that names an instance of the pool, without a kubelet, neither hides a difference nor
// replaces a real node.
func TestForgedPeersAreNamed(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1", "w-2", "w-3")
	w.node("x-1", true, func(n *corev1.Node) { n.Spec.ProviderID = "cloud:///W-1" })
	w.allocates("x-1", "8")
	w.node("x-2", true) // of no instance in the pool
	w.heart("x-2")
	w.allocates("x-2", "8")
	w.trialNode("8")
	f := w.observeUntil("a comparison", func(f trial.Facts) bool { return f.Comparison != nil && len(f.Comparison.Notes) > 0 })
	names, _ := differences(f.Comparison)
	if want := []string{"node x-1, whose lease kube-node-lease/x-1 no kubelet renews"}; !slices.Equal(names, []string{"allocatable/pods"}) ||
		!slices.Equal(f.Comparison.Notes, want) {
		t.Errorf("%+v", f.Comparison)
	}
	if f.Comparison.Others != 3 {
		t.Errorf("compared with %d nodes", f.Comparison.Others)
	}
}

// TestTooFewNodesAreNamed: the reason names the forged Nodes that a comparison does not use.
func TestTooFewNodesAreNamed(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1")
	w.node("x-1", true, func(n *corev1.Node) { n.Spec.ProviderID = "cloud:///W-1" })
	w.trialNode("8")
	f := w.observeUntil("a comparison", func(f trial.Facts) bool { return f.Comparison != nil && strings.Contains(f.Comparison.Skipped, "x-1") })
	if want := "the pool has 1 other Ready nodes with another version, and a comparison needs two; not used: node x-1, " +
		"whose lease kube-node-lease/x-1 no kubelet renews"; f.Comparison.Skipped != want {
		t.Errorf("%s", f.Comparison.Skipped)
	}
	// The two container images of the node are fewer than half of the donor's.
	w.subject.Image.Tags = map[string]string{cloud.TagImages: "5"}
	w.subject.Known = nil
	f = w.observeUntil("fewer images", func(f trial.Facts) bool { return f.Comparison != nil && len(f.Comparison.Differences) > 0 })
	if d := f.Comparison.Differences[0]; f.Comparison.Skipped == "" || d.Name != "images" ||
		d.Message != "2 container images are on the disk, and 5 were on the donor's" {
		t.Errorf("%+v", f.Comparison)
	}
	w.subject.Image.Tags = nil
	for what, answer := range map[string]func() ([]cloud.Instance, error){
		"does not list the instances": nil,
		"does not let Kamino list":    func() ([]cloud.Instance, error) { return nil, &cloud.Error{Kind: cloud.Denied, Op: "list instances"} },
	} {
		w.subject.PoolInstances = answer
		w.subject.Known = nil
		if f := w.observeUntil(what, nil); !strings.Contains(f.Comparison.Skipped, what) {
			t.Errorf("%s: %+v", what, f.Comparison)
		}
	}
}

// TestAClockWithoutOtherNodes: the Lease shows the clock of a node that is alone in its pool.
func TestAClockWithoutOtherNodes(t *testing.T) {
	written, renewed := metav1.NewTime(noon), metav1.NewMicroTime(noon.Add(time.Hour))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "t-0", Namespace: corev1.NamespaceNodeLease, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &written}},
	}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	a := (&Observer{Kube: fake.NewClientset(lease)}).attempt(trial.Subject{
		Prototype: &v1alpha1.Prototype{}, PoolInstances: func() ([]cloud.Instance, error) { return nil, nil },
	})
	l, err := compareNow(t.Context(), a, noon, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t-0"}}, &trialRecord{}, &daemonPods{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "the clock is 1h0m0s ahead of the API server's clock"; len(l.Differences) != 1 || l.Differences[0].Message != want {
		t.Errorf("%+v, want %s", l.Differences, want)
	}
}

// TestDriversAndDaemonSets of the others that the node lacks.
func TestDriversAndDaemonSets(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1", "w-2")
	w.trialNode("110")
	labels := map[string]string{"app": "gpu"}
	yes := true
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: w.tryout.Namespace}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}, Containers: []corev1.Container{{Name: "c", Image: "c"}}}},
	}}
	set, err := w.kube.AppsV1().DaemonSets(set.Namespace).Create(t.Context(), set, metav1.CreateOptions{})
	w.must(err)
	set.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, NumberReady: 2}
	_, err = w.kube.AppsV1().DaemonSets(set.Namespace).UpdateStatus(t.Context(), set, metav1.UpdateOptions{})
	w.must(err)
	for _, name := range []string{"w-1", "w-2"} {
		_, err := w.kube.StorageV1().CSINodes().Create(t.Context(),
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk.csi", NodeID: name}}}}, metav1.CreateOptions{})
		w.must(err)
		_, err = w.kube.CoreV1().Pods(set.Namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "gpu", UID: set.UID, Controller: &yes}}},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		w.must(w.kube.StorageV1().CSINodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		w.must(w.kube.AppsV1().DaemonSets(set.Namespace).Delete(ctx, set.Name, metav1.DeleteOptions{}))
	})
	missing := "daemonset/" + set.Namespace + "/gpu"
	w.observeUntil("both", func(f trial.Facts) bool {
		w.subject.Facts.Now = w.subject.Facts.Now.Add(2 * time.Minute)
		names, _ := differences(f.Comparison)
		return slices.Equal(names, []string{missing, "driver/disk.csi"})
	})
	w.subject.Prototype.Spec.Settings.Trial.IgnoreDaemonSets = []string{set.Namespace + "/gpu"}
	w.subject.Prototype.Spec.Settings.Trial.IgnoreDifferences = []string{"driver/*"}
	w.observeUntil("neither", func(f trial.Facts) bool {
		w.subject.Facts.Now = w.subject.Facts.Now.Add(2 * time.Minute)
		names, _ := differences(f.Comparison)
		return len(names) == 0
	})
	w.tryout.Kube = denied(t, "csinodes")
	w.subject.Known = nil
	if _, err := w.lookOnce(); err == nil || !strings.Contains(err.Error(), "list csinodes") {
		t.Errorf("%v", err)
	}
}

// TestExpressionsOfTheUser are checks of their own.
func TestExpressionsOfTheUser(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1", "w-2")
	w.trialNode("8")
	w.subject.Prototype.Spec.Settings.Trial.Expect = []v1alpha1.TrialExpectation{
		{Name: "Peers", Expression: "size(peers) == 2"}, {Name: "Pods", Expression: `node.status.allocatable.pods == "110"`},
		{Name: "Gpu", Expression: `node.status.allocatable.gpu == "1"`},
	}
	f := w.observeUntil("the results", func(f trial.Facts) bool { return len(f.Expectations) == 3 && f.Expectations[0].Met })
	want := []trial.Expectation{
		{Name: "Peers", Evaluated: true, Met: true, Since: noon}, {Name: "Pods", Evaluated: true, Since: noon},
		{Name: "Gpu", Evaluated: true, Error: "no such key: gpu", Since: noon},
	}
	if diff := cmp.Diff(want, f.Expectations); diff != "" {
		t.Error(diff)
	}
}

// TestAPodOfADaemonSet by looks: time without a Ready pod, and restarts since the first Ready.
func TestAPodOfADaemonSet(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	type look struct {
		pod      *corev1.Pod
		since    int // minute; -1 if Ready
		restarts int32
	}
	for name, looks := range map[string][]look{
		"never Ready":         {{nil, 0, 0}, {aPod("1", "1", false, 0), 0, 0}, {aPod("1", "1", false, 5), 0, 0}},
		"Ready after a while": {{aPod("1", "1", false, 4), 0, 0}, {aPod("1", "1", true, 5), -1, 0}, {aPod("1", "1", true, 8), -1, 3}},
		"restarts": {{aPod("1", "1", true, 0), -1, 0}, {aPod("1", "1", false, 1), 1, 1}, {aPod("1", "1", true, 1), -1, 1},
			{aPod("1", "1", false, 2), 3, 2}},
		"a rollout passes by": {{aPod("1", "1", false, 0), 0, 0}, {nil, 0, 0}, {aPod("2", "2", false, 0), 2, 0}, {aPod("2", "2", false, 0), 2, 0},
			{aPod("2", "2", true, 0), -1, 0}},
		"evicted again and again": {{aPod("1", "1", false, 3), 0, 0}, {aPod("2", "1", false, 0), 0, 0}, {aPod("3", "1", false, 0), 0, 0}},
		"deleted by a person":     {{aPod("1", "1", true, 2), -1, 0}, {nil, 1, 0}, {aPod("2", "1", false, 0), 1, 0}, {aPod("2", "1", true, 0), -1, 0}},
	} {
		var record v1alpha1.TrialDaemonSet
		for i, l := range looks {
			var d trial.Daemon
			d, record = observeDaemon("kube-system/a", l.pod, record, at(i))
			want := time.Time{}
			if l.since >= 0 {
				want = at(l.since)
			}
			if !d.Since.Equal(want) || d.Ready != (l.since < 0) || d.Restarts != l.restarts {
				t.Errorf("%s, minute %d: %+v, want since %s with %d restarts", name, i, d, want, l.restarts)
			}
		}
	}
}

// aPod is a pod of a DaemonSet with its template generation.
func aPod(uid, generation string, ready bool, restarts int32) *corev1.Pod {
	p := daemonPod("a", ready, restarts, 0)
	p.Name, p.Namespace, p.UID, p.Labels = uid, "kube-system", types.UID(uid), map[string]string{generationLabel: generation, "app": "a"}
	return &p
}

// TestARollout: while a template is new, only pods of the template on other nodes show whether the template works.
func TestARollout(t *testing.T) {
	rolling := set("a", 4, 4, corev1.PodSpec{})
	rolling.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}
	rolling.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	rolling.Status.UpdatedNumberScheduled = 2
	done := rolling
	done.Status.UpdatedNumberScheduled = 4
	for name, c := range map[string]struct {
		set        appsv1.DaemonSet
		generation string
		others     []string // generation, and Ready or not
		newest     bool
		proven     bool
	}{
		"no rollout":             {done, "2", nil, false, false},
		"a pod before":           {rolling, "1", nil, false, false},
		"the first":              {rolling, "2", []string{"1 true", "1 true"}, true, false},
		"one before, not Ready":  {rolling, "2", []string{"2 false", "1 true"}, true, false},
		"one before, Ready":      {rolling, "2", []string{"2 true", "1 false"}, true, true},
		"half of the new, Ready": {rolling, "2", []string{"2 true", "2 false"}, true, false},
	} {
		here := aPod("here", c.generation, false, 0)
		here.Spec.NodeName = "t-0"
		existing := []runtime.Object{here}
		for i, other := range c.others {
			generation, ready, _ := strings.Cut(other, " ")
			p := aPod(fmt.Sprint("pod-", i), generation, ready == "true", 0)
			p.Spec.NodeName = fmt.Sprint("w-", i)
			existing = append(existing, p)
		}
		a := &attempt{nodeWriter: nodeWriter{objects{Observer: &Observer{Kube: fake.NewClientset(existing...)}}}}
		proven, err := isProven(t.Context(), a, &c.set, here)
		if isNewest(&c.set, here) != c.newest || proven != c.proven || err != nil {
			t.Errorf("%s: newest %t, proven %t, %v", name, isNewest(&c.set, here), proven, err)
		}
	}
}

// TestOnlyNodesOfItsTypeAreCompared: in a mixed group, nodes of other types are no peers. Without the label, the cloud's type counts.
func TestOnlyNodesOfItsTypeAreCompared(t *testing.T) {
	for _, byCloud := range []bool{false, true} {
		t.Run(fmt.Sprint("by the cloud ", byCloud), func(t *testing.T) { comparesByType(t, byCloud) })
	}
}

func comparesByType(t *testing.T, byCloud bool) {
	t.Helper()
	w := newTestEnv(t)
	w.pool("w-1", "w-2", "w-3", "w-4")
	w.trialNode("110")
	types := map[string]string{"t-0": "large", "w-1": "large", "w-2": "large", "w-3": "xlarge", "w-4": "xlarge"}
	instances, err := w.subject.PoolInstances()
	w.must(err)
	for name, kind := range types {
		if !byCloud {
			n := w.get(name)
			metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelInstanceTypeStable, kind)
			_, err := w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
			w.must(err)
			continue
		}
		for i := range instances {
			if strings.EqualFold(string(instances[i].ID), "cloud:///"+name) {
				instances[i].Type = kind
			}
		}
	}
	w.subject.Instances[0].Type = map[bool]string{true: "large"}[byCloud]
	w.allocates("w-3", "250")
	w.allocates("w-4", "250")
	f := w.observeUntil("a comparison with two nodes", func(f trial.Facts) bool {
		w.subject.Facts.Now = w.subject.Facts.Now.Add(2 * time.Minute)
		return f.Comparison != nil && f.Comparison.Others == 2
	})
	if len(f.Comparison.Differences) > 0 {
		t.Errorf("%+v", f.Comparison)
	}
	w.subject.Instances[0].Type = "other"
	n := w.get("t-0")
	metav1.SetMetaDataLabel(&n.ObjectMeta, corev1.LabelInstanceTypeStable, "other")
	_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
	w.observeUntil("no comparison", func(f trial.Facts) bool {
		w.subject.Facts.Now = w.subject.Facts.Now.Add(2 * time.Minute)
		return f.Comparison.Skipped == "the pool has 0 other Ready nodes with another version and the instance type of the node, and a comparison needs two"
	})
}

// TestWhatTheDiskAdds: labels that a Service or a DaemonSet uses, a taint of the autoscaler, and a static pod, of the trial node alone.
func TestWhatTheDiskAdds(t *testing.T) {
	w := newTestEnv(t)
	w.pool("w-1", "w-2")
	mirror := func(node, name string) {
		_, err := w.kube.CoreV1().Pods(w.tryout.Namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	mirror("t-0", "kube-vip")
	for _, node := range []string{"t-0", "w-1", "w-2"} {
		mirror(node, "proxy")
	}
	_, err := w.kube.CoreV1().Services(w.tryout.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{targetLabels: "tier=front, balanced=yes"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.trialNode("110")
	n := w.get("t-0")
	n.Labels["balanced"], n.Labels["harmless"], n.Labels[excludeLabel] = "no", "yes", ""
	n.Spec.Taints = []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler", Value: "1764500000", Effect: corev1.TaintEffectPreferNoSchedule}}
	_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
	n = w.get("w-1")
	n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: "1764500000", Effect: corev1.TaintEffectNoSchedule}}
	_, err = w.kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
	want := []string{"label/balanced", "label/" + excludeLabel, "staticpod/" + w.tryout.Namespace + "/kube-vip", "taint/DeletionCandidateOfClusterAutoscaler"}
	var last []string
	w.observeUntil(strings.Join(want, ", "), func(f trial.Facts) bool {
		w.subject.Facts.Now = w.subject.Facts.Now.Add(2 * time.Minute)
		last, _ = differences(f.Comparison)
		return slices.Equal(last, want)
	})
	w.tryout.Kube = denied(t, "services")
	w.subject.Known[0].Comparison = nil
	if f, err := w.lookOnce(); err != nil || len(f.Facts.Comparison.Differences) != 3 {
		t.Errorf("without the right to list Services: %+v, %v", f.Facts.Comparison, err)
	}
}
