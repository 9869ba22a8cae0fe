package trialnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// TestNodeReadyAndNotReady by the clock of the observer.
func TestNodeReadyAndNotReady(t *testing.T) {
	w := newTestEnv(t)
	if f := w.observeUntil("nothing", nil); f.Node != "" || f.Ready || f.Begun != w.subject.Facts.Begun {
		t.Errorf("without a node: %+v", f)
	}
	// The node's clock is an hour behind, which must not look like an hour of Ready.
	w.node("t-0", false)
	w.ready("t-0", false, noon.Add(-time.Hour))
	f := w.at(time.Minute).observeUntil("the node", func(f trial.Facts) bool { return f.Node == "t-0" })
	if f.Ready || f.WasReady || f.Registered.IsZero() || !f.IdentityKnown {
		t.Errorf("not Ready yet: %+v", f)
	}
	node := w.get("t-0")
	if !node.Spec.Unschedulable || node.Labels[excludeLabel] == "" || node.Labels[v1alpha1.TrialKey] != string(w.subject.Prototype.UID) {
		t.Errorf("users' pods are not kept away: %t %v", node.Spec.Unschedulable, node.Labels)
	}
	if len(w.parts()) > 0 {
		t.Errorf("pods on a node that never was Ready: %v", w.parts())
	}

	w.ready("t-0", true, noon.Add(-time.Hour))
	f = w.at(2*time.Minute).observeUntil("Ready", nil)
	if !f.Ready || !f.WasReady || !f.Changed.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("Ready: %+v", f)
	}
	written := w.get("t-0").ResourceVersion
	f = w.at(3*time.Minute).observeUntil("Ready, still", nil)
	if !f.Changed.Equal(noon.Add(2 * time.Minute)) {
		t.Errorf("it is Ready since %s", f.Changed)
	}
	if len(w.parts()) == 0 {
		t.Error("nothing is measured")
	}
	// The node was away for a moment between two looks: only the kubelet's timestamp shows the change.
	w.ready("t-0", true, noon.Add(-time.Minute))
	if f = w.at(5*time.Minute).observeUntil("back", nil); !f.Ready || !f.Changed.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("back: %+v", f)
	}
	w.ready("t-0", false, noon)
	if f = w.at(6*time.Minute).observeUntil("away", nil); f.Ready || !f.WasReady || !f.Changed.Equal(noon.Add(6*time.Minute)) {
		t.Errorf("away: %+v", f)
	}
	// Kamino restores a removed cordon.
	node = w.get("t-0")
	node.Spec.Unschedulable = false
	if _, err := w.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.observeUntil("again", nil)
	if !w.get("t-0").Spec.Unschedulable || written == "" {
		t.Error("it takes pods")
	}
	observation, err := w.tryout.Observe(t.Context(), w.subject)
	want := &v1alpha1.TrialNode{Kernel: "6.1", Images: 2, ReadyAfter: &metav1.Duration{Duration: 5 * time.Minute}}
	if diff := cmp.Diff(want, observation.Node); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestALookThatSeesNothingNewWritesNothing.
func TestALookThatSeesNothingNewWritesNothing(t *testing.T) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.observeUntil("the node", func(f trial.Facts) bool { return f.Ready })
	for range 3 {
		w.observeUntil("again", nil)
	}
	before := w.get("t-0").ResourceVersion
	w.at(time.Minute).observeUntil("again", nil)
	if after := w.get("t-0").ResourceVersion; after != before {
		t.Errorf("it was written: %s, %s", before, after)
	}
}

// TestSeveralInstancesOfVersion: no instance of the version takes pods, and the trial judges the oldest instance.
func TestSeveralInstancesOfVersion(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Instances = append(w.subject.Instances, cloud.Instance{ID: "cloud:///t-1", CreatedAt: noon})
	w.node("t-1", true)
	bystander := w.node("w-1", true)
	w.observeUntil("the younger takes no pods", func(f trial.Facts) bool {
		if f.Node != "" {
			t.Fatalf("judged is %s", f.Node)
		}
		return w.get("t-1").Spec.Unschedulable
	})
	w.node("t-0", true)
	w.observeUntil("the older", func(f trial.Facts) bool { return f.Node == "t-0" })
	w.untouched(bystander)
}

// TestNodesAtEndOfTrial at the end.
func TestNodesAtEndOfTrial(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Instances = append(w.subject.Instances, cloud.Instance{ID: "cloud:///t-1", CreatedAt: noon}, cloud.Instance{ID: "cloud:///t-2", CreatedAt: noon})
	w.node("t-0", true)
	free := w.node("t-1", true)
	cordoned := w.node("t-2", true, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Labels[excludeLabel] = "by-hand"
	})
	w.observeUntil("three", func(trial.Facts) bool { return len(w.trialNodes()) == 3 })
	// Two instances do not belong to the trial: their Nodes stay Ready.
	w.subject.Instances = w.subject.Instances[:1]
	if !w.clean() {
		t.Error("nothing is left, and two Nodes stay Ready")
	}
	w.subject.Overdue = true
	if w.clean() {
		t.Error("something is left, and the instance is there")
	}
	w.subject.Overdue = false
	w.untouched(free)
	w.untouched(cordoned)
	if !w.get("t-0").Spec.Unschedulable {
		t.Error("the trial's node takes pods before its instance goes")
	}
	// The instance goes. Its Node still reports Ready for a moment.
	w.subject.Instances = nil
	if !w.clean() || len(w.trialNodes()) != 1 {
		t.Error("the Node of an instance that is gone is forgotten")
	}
	w.ready("t-0", false, noon)
	if w.clean() || len(w.trialNodes()) != 0 || len(w.nodes()) != 2 {
		t.Errorf("%d nodes are there", len(w.nodes()))
	}
	if w.clean() {
		t.Error("a second time finds something")
	}
}

// TestANewMachineUnderTheNameIsNotTheTrials: the node is returned to service and not deleted.
func TestANewMachineUnderTheNameIsNotTheTrials(t *testing.T) {
	w := newTestEnv(t)
	before := w.node("t-0", true)
	w.observeUntil("the node", func(f trial.Facts) bool { return f.Ready })
	w.clean()
	w.subject.Instances = nil
	node := w.get("t-0")
	node.Status.NodeInfo.BootID = "another"
	if _, err := w.kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if w.clean() {
		t.Error("it is waited for")
	}
	w.untouched(before)
}

func (w *testEnv) trialNodes() (names []string) {
	for _, n := range w.nodes() {
		if _, tried := n.Labels[v1alpha1.TrialKey]; tried {
			names = append(names, n.Name)
		}
	}
	return names
}

// measured plays a good cluster until all measurements are complete.
func (w *testEnv) measured() trial.Facts {
	w.Helper()
	w.observeUntil("pods", func(trial.Facts) bool { return slices.Equal(w.parts(), []string{onDisk, peer}) })
	w.becomes(onDisk, ended(0, "{}"))
	w.becomes(peer, running("10.0.0.7"))
	w.observeUntil("more pods", func(trial.Facts) bool { return len(w.parts()) == 4 })
	w.becomes(measuring, reported("sha256:a"))
	w.becomes(control, reported(""))
	return w.observeUntil("an end", func(f trial.Facts) bool { return f.Network.Result != trial.Pending })
}

// TestTheWholeStory ends with a verdict, and leaves no object.
func TestTheWholeStory(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Facts.Proven = "sha256:a"
	w.node("w-1", true)
	w.node("w-2", true)
	w.node("w-3", true, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.node("t-0", true)
	f := w.measured()
	for part, node := range map[string]string{onDisk: "t-0", measuring: "t-0", peer: "w-1", control: "w-2"} {
		pod := w.part(part)
		if pod.Spec.NodeName != node || pod.OwnerReferences[0].UID != w.subject.Prototype.UID || pod.OwnerReferences[0].Kind != "Prototype" {
			t.Errorf("%s is on %s, and %v has it", part, pod.Spec.NodeName, pod.OwnerReferences)
		}
		// A drain of another node may evict the trial's pods there; on the trial node, the pods keep an autoscaler away.
		if remade := metav1.GetControllerOf(pod) != nil; remade != (node != "t-0") {
			t.Errorf("%s is on %s, and is made again: %t", part, node, remade)
		}
		w.privileges(part, pod)
	}
	for _, part := range []string{measuring, control} {
		pod, key := w.part(part), keyOf(w.part(peer))
		if args := pod.Spec.Containers[0].Args; keyOf(pod) != key || len(key) < 20 || !slices.Contains(args, "--peer=10.0.0.7") ||
			pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
			t.Errorf("%s: %v", part, args)
		}
	}
	f.Now, f.Reboot = noon.Add(11*time.Minute), trial.Reboot{Skipped: "the cloud is not part of this test"}
	if v := trial.Judge(f); v.Result != trial.Passed {
		t.Errorf("%s: %s", v.Result, v.Message)
	}
	w.clean()
	if left := w.parts(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// privileges: except for one directory of the host, the pods meet the strictest level of Pod Security.
func (w *testEnv) privileges(part string, pod *corev1.Pod) {
	w.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		w.Fatal(err)
	}
	var whys []string
	for _, r := range evaluator.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			whys = append(whys, r.ForbiddenReason)
		}
	}
	want := ""
	if part == measuring {
		want = "restricted volume types"
		if v := pod.Spec.Volumes[0].HostPath; len(pod.Spec.Volumes) != 1 || v == nil || v.Path != "/var/lib/kamino" ||
			!pod.Spec.Containers[0].VolumeMounts[0].ReadOnly {
			w.Errorf("it mounts %+v", pod.Spec.Volumes)
		}
	}
	if got := strings.Join(whys, " "); got != want {
		w.Errorf("%s is not allowed where nothing is: %q, want %q", part, got, want)
	}
	if auto := pod.Spec.AutomountServiceAccountToken; auto == nil || *auto {
		w.Errorf("%s has a token", part)
	}
}

// TestANodeThatIsAlone measures without another node.
func TestANodeThatIsAlone(t *testing.T) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.node("w-1", false)
	w.observeUntil("a pod", func(trial.Facts) bool { return slices.Equal(w.parts(), []string{onDisk}) })
	w.becomes(onDisk, waitingFor("ErrImageNeverPull"))
	w.observeUntil("another pod", func(trial.Facts) bool { return slices.Equal(w.parts(), []string{onDisk, measuring}) })
	if args := strings.Join(w.part(measuring).Spec.Containers[0].Args, " "); strings.Contains(args, "--peer") {
		t.Errorf("it looks for %s", args)
	}
	w.becomes(measuring, ended(0, `{"digest":"sha256:a"}`))
	f := w.observeUntil("an end", func(f trial.Facts) bool { return f.Digest != "" })
	if f.Network.Result != trial.Skipped || f.Images.Result != trial.Passed || f.Digest != "sha256:a" {
		t.Errorf("%+v", f)
	}
}

// TestANodeOfThePoolIsTheControl: the control pod is on a node of the pool with another version, and both pods measure
// their nodes.
func TestANodeOfThePoolIsTheControl(t *testing.T) {
	w := newTestEnv(t)
	w.subject.Spec.Version = "2026.11.22"
	w.subject.PoolInstances = func() ([]cloud.Instance, error) {
		return []cloud.Instance{{ID: "cloud:///x-1", BuiltFrom: "2026.11.22"}, {ID: "cloud:///x-2"}, {ID: "cloud:///gone"}}, nil
	}
	for _, name := range []string{"t-0", "w-1", "w-2", "x-1", "x-2"} {
		w.node(name, true)
	}
	w.observeUntil("pods", func(trial.Facts) bool { return len(w.parts()) == 2 })
	w.becomes(onDisk, ended(0, "{}"))
	w.becomes(peer, running("10.0.0.7"))
	w.observeUntil("all pods", func(trial.Facts) bool { return len(w.parts()) == len(measuringParts) })
	for part, node := range map[string]string{peer: "w-1", measuring: "t-0", control: "x-2"} {
		pod := w.part(part)
		measures := strings.Contains(strings.Join(pod.Spec.Containers[0].Args, " "), "--scratch=/scratch")
		if pod.Spec.NodeName != node || measures != (part != peer) {
			t.Errorf("pod %s is on %s: %v", part, pod.Spec.NodeName, pod.Spec.Containers[0].Args)
		}
		if part != measuring {
			w.privileges(part, pod)
		}
	}
	for w.clean() {
	}
	if left := w.parts(); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// TestOnlyItsOwnPodsAreBelieved: Kamino removes a pod of another client under the name, with any report.
func TestOnlyItsOwnPodsAreBelieved(t *testing.T) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.node("w-1", true)
	a := &attempt{nodeWriter: nodeWriter{objects{w.tryout, w.subject}}}
	forged := a.pod(measuring, "t-0", probe.Options{}, corev1.PullNever)
	if _, err := w.kube.CoreV1().Pods(forged.Namespace).Create(t.Context(), forged, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.becomes(measuring, reported("sha256:forged"))
	uid := w.part(measuring).UID
	for range 5 {
		if f := w.observeUntil("a look", nil); f.Digest != "" || f.Network.Result == trial.Passed {
			t.Fatalf("it was believed: %+v", f)
		}
	}
	f := w.measured()
	if f.Digest != "sha256:a" || w.part(measuring).UID == uid {
		t.Errorf("the digest is %s", f.Digest)
	}
}

// TestAPeerThatWaitedInVain is created again.
func TestAPeerThatWaitedInVain(t *testing.T) {
	w := newTestEnv(t)
	w.node("t-0", true)
	w.node("w-1", true)
	w.observeUntil("pods", func(trial.Facts) bool { return len(w.parts()) == 2 })
	old := w.part(peer).UID
	w.becomes(peer, corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"})
	w.observeUntil("another", func(trial.Facts) bool { p := w.part(peer); return p != nil && p.UID != old })
	if f := w.measured(); f.Network.Result != trial.Passed {
		t.Errorf("%+v", f.Network)
	}
}

// TestAPeerThatLeaves: only failures that the absence cannot explain count against the node.
func TestAPeerThatLeaves(t *testing.T) {
	for _, c := range []struct {
		subject probe.Connection
		leaves  bool
		want    trial.Result
	}{
		{probe.Pod, false, trial.Failed}, {probe.Back, true, trial.Inconclusive}, {probe.Pod, true, trial.Inconclusive}, {probe.Service, true, trial.Failed},
	} {
		with := &corev1.Pod{Status: running("10.0.0.7")}
		found := map[string]*corev1.Pod{peer: with,
			measuring: (&attempt{nodeWriter: nodeWriter{objects{&Observer{}, trial.Subject{Prototype: &v1alpha1.Prototype{}}}}}).measuringPod(measuring,
				"t-0", keyed(with), false)}
		if c.leaves { // and another one has come
			found[peer] = &corev1.Pod{Status: running("10.0.0.8")}
		}
		here, control := podWith(reported("", c.subject), time.Minute), podWith(reported(""), time.Minute)
		got := nodeFailures(network(here, control, "t-0", false, "w-1"), here, control, found)
		if got.Result != c.want || strings.Contains(got.Says, "has left meanwhile") != (c.want == trial.Inconclusive) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// keyed is an answering pod with a key.
func keyed(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers = []corev1.Container{{Args: []string{keyFlag + "k"}}}
	return pod
}

// TestLostCalls loses each writing call in turn, before or after its effect. The trial still ends with trusted pods, and
// leaves no object.
func TestLostCalls(t *testing.T) {
	for _, behind := range []bool{false, true} {
		for n, more := 1, true; more && !t.Failed(); n++ {
			t.Run(fmt.Sprintf("%d behind %t", n, behind), func(t *testing.T) {
				more = loseCall(t, n, behind)
			})
			if !more && n < 10 {
				t.Errorf("only %d calls were lost", n-1)
			}
		}
	}
}

// loseCall reports whether an n-th call existed.
func loseCall(t *testing.T, n int, behind bool) bool {
	w := newTestEnv(t)
	w.subject.Prototype.Spec.Settings.Trial.Job = "check"
	w.userJob(goodJob)
	w.node("t-0", true)
	w.node("w-1", true)
	w.faults.arm(n, behind)
	w.persist()
	lost := w.faults.what()
	if k := w.recordOf("t-0"); !w.get("t-0").Spec.Unschedulable {
		t.Errorf("%s lost: it is known as %+v", lost, k)
	}
	w.subject.Instances = nil
	w.ready("t-0", false, noon)
	w.until("an end", func() (bool, error) {
		left, err := w.tryout.Clean(t.Context(), w.subject)
		return err == nil && len(left) == 0, err
	})
	if len(w.parts()) > 0 || len(w.nodes()) != 1 || w.jobs() > 0 {
		t.Errorf("%s lost: left are %v, %d nodes, %d jobs", lost, w.parts(), len(w.nodes()), w.jobs())
	}
	return w.faults.what() != ""
}

// persist plays a good cluster, and repeats looks up to the first Clean.
func (w *testEnv) persist() {
	w.Helper()
	w.until("a verdict", func() (bool, error) {
		observation, err := w.lookOnce()
		if err != nil {
			return false, err
		}
		for part, status := range map[string]corev1.PodStatus{
			onDisk: ended(0, "{}"), peer: running("10.0.0.7"), measuring: reported("sha256:a"), control: reported(""),
		} {
			if pod := w.part(part); pod != nil && pod.DeletionTimestamp == nil && len(pod.Status.ContainerStatuses) == 0 {
				w.becomes(part, status)
			}
		}
		f := observation.Facts
		return f.Network.Result == trial.Passed && f.Images.Result == trial.Passed && f.Digest == "sha256:a" &&
			f.Job.Result == trial.Pending && w.jobs() == 1, nil
	})
	w.until("the going", func() (bool, error) {
		_, err := w.tryout.Clean(w.T.Context(), w.subject)
		return err == nil, err
	})
}

// until repeats the try after lost calls.
func (w *testEnv) until(what string, try func() (bool, error)) {
	w.Helper()
	for range 300 {
		done, err := try()
		var lost lostCall
		if err != nil && !errors.As(err, &lost) {
			w.Fatal(err)
		}
		if done {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	w.Fatalf("never: %s (lost: %s; there are %v)", what, w.faults.what(), w.parts())
}
