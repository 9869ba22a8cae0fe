package trialnode

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/internal/trial/probe"
)

// podWith is a pod with this status and age.
func podWith(status corev1.PodStatus, age time.Duration) podState {
	return podStateOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-age))}, Status: status}, noon)
}

// again is a container that ended so many times and waits for its next start.
func again(times int32, message string) corev1.PodStatus {
	s := waitingFor("CrashLoopBackOff")
	s.ContainerStatuses[0].RestartCount = times - 1
	s.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: message}}
	return s
}

// TestNetwork: a failure counts against the node only if another node succeeds, and a missing measurement counts against
// none.
func TestNetwork(t *testing.T) {
	good, none := podWith(reported(""), time.Minute), podState{}
	bad := func(s ...probe.Connection) podState { return podWith(reported("", s...), time.Minute) }
	for name, test := range map[string]struct {
		here, control podState
		alone         bool
		want          trial.Result
		says          string
	}{
		"good":                    {good, good, false, trial.Passed, "in both directions"},
		"good, uncontrolled":      {good, none, false, trial.Passed, "in both directions"},
		"good, control is worse":  {good, bad(probe.Pod), false, trial.Passed, "in both directions"},
		"alone":                   {podWith(ended(0, "{}"), 0), none, true, trial.Skipped, "no other node"},
		"not yet":                 {none, good, false, trial.Pending, ""},
		"bad, not controlled yet": {bad(probe.Pod), none, false, trial.Pending, ""},
		"not there": {bad(probe.Pod), good, false, trial.Failed,
			"no connection to a pod of another node from node t-0 (i/o timeout), but works from node w-1"},
		"not back":                    {bad(probe.Back), good, false, trial.Failed, "no connection from a pod of another node"},
		"no Service":                  {bad(probe.Service), good, false, trial.Failed, "no connection to the API server's Service"},
		"no names":                    {bad(probe.Inside), good, false, trial.Failed, "name of a Service does not resolve"},
		"nor from the other":          {bad(probe.Inside), bad(probe.Inside), false, trial.Inconclusive, "and from node w-1 also not"},
		"another's fault and its own": {bad(probe.Inside, probe.Pod), bad(probe.Inside), false, trial.Failed, "no connection to a pod of another node"},
		"control does not measure":    {bad(probe.Pod), podWith(again(4, "exec"), 0), false, trial.Inconclusive, "the control pod failed"},
		"does not measure":            {podWith(again(4, "exec"), 0), good, false, trial.Inconclusive, "ended 4 times"},
		"may measure yet":             {podWith(again(3, "exec"), 0), good, false, trial.Pending, ""},
		"is turned away": {podWith(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods"}, 0), good, false,
			trial.Inconclusive, "OutOfpods"},
		"says too little":            {podWith(ended(0, `{"findings":[{"subject":"pod"}]}`), 0), good, false, trial.Inconclusive, "is incomplete"},
		"says nothing":               {podWith(ended(0, "{}"), 0), good, false, trial.Inconclusive, "is incomplete"},
		"says what it was not asked": {podWith(ended(0, `{"verdict":"Passed"}`), 0), good, false, trial.Inconclusive, "not a report"},
		"control says little":        {bad(probe.Pod), podWith(ended(0, "{}"), 0), false, trial.Inconclusive, "also not"},
	} {
		got := network(test.here, test.control, "t-0", test.alone, "w-1")
		if got.Result != test.want || !strings.Contains(got.Says, test.says) || (got.Says == "") != (test.says == "") {
			t.Errorf("%s: %+v, want %s %q", name, got, test.want, test.says)
		}
	}
}

func TestImages(t *testing.T) {
	on, missing, up, none := podWith(ended(0, "{}"), 0), podWith(waitingFor("ErrImageNeverPull"), 0), podWith(running("10.0.0.1"), 0), podState{}
	unpulled := func(age time.Duration) podState { return podWith(waitingFor("ImagePullBackOff"), age) }
	broken := podWith(waitingFor("CreateContainerError"), time.Hour)
	for name, test := range map[string]struct {
		there, here, control podState
		alone                bool
		want                 trial.Result
		says                 string
	}{
		"both":                      {on, up, none, false, trial.Passed, "started without a pull"},
		"both, alone":               {on, podWith(ended(0, "{}"), 0), none, true, trial.Passed, "started without a pull"},
		"not on the disk":           {missing, up, none, false, trial.Passed, "not on the disk"},
		"not yet":                   {none, none, none, false, trial.Pending, ""},
		"not pulled yet":            {on, unpulled(time.Minute), up, false, trial.Pending, ""},
		"not pulled":                {on, unpulled(time.Hour), up, false, trial.Failed, "cannot be pulled"},
		"not pulled anywhere":       {on, unpulled(time.Hour), unpulled(time.Hour), false, trial.Inconclusive, "does not work either"},
		"not pulled, elsewhere yet": {on, unpulled(time.Hour), none, false, trial.Pending, ""},
		"not pulled, alone":         {on, unpulled(time.Hour), none, true, trial.Inconclusive, "no other node"},
		"does not start":            {broken, up, up, false, trial.Failed, "does not start"},
		"does not start yet":        {podWith(waitingFor("CreateContainerError"), time.Minute), none, none, false, trial.Pending, ""},
		"crashes":                   {podWith(again(4, "exec format error"), 0), up, up, false, trial.Failed, "exec format error"},
		"crashes everywhere":        {podWith(again(4, "exec format error"), 0), up, broken, false, trial.Inconclusive, "does not work either"},
		"is turned away": {on, podWith(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods"}, 0), up, false,
			trial.Inconclusive, "OutOfpods"},
	} {
		got := images(test.there, test.here, test.control, test.alone)
		if got.Result != test.want || !strings.Contains(got.Says, test.says) || (got.Says == "") != (test.says == "") {
			t.Errorf("%s: %+v, want %s %q", name, got, test.want, test.says)
		}
	}
}

// machineReport is the end of a measuring pod that has measured its node.
func machineReport(m *probe.Machine) podState {
	text, err := json.Marshal(probe.Report{Machine: m})
	if err != nil {
		panic(err)
	}
	return podWith(ended(0, string(text)), time.Minute)
}

// TestPerformance: the node is compared only with a node of the pool that could be measured.
func TestPerformance(t *testing.T) {
	a := &attempt{nodeWriter: nodeWriter{objects{&Observer{}, trial.Subject{Prototype: &v1alpha1.Prototype{}, Attempt: 1}}}}
	a.Prototype.Spec.Settings.Trial.IgnoreDifferences = []string{"speed/cpu"}
	with, none := keyed(&corev1.Pod{Status: running("10.0.0.7")}), podState{}
	pods := func(inPool bool) map[string]*corev1.Pod {
		return map[string]*corev1.Pod{measuring: a.measuringPod(measuring, "t-0", with, inPool), control: a.measuringPod(control, "w-1", with, inPool)}
	}
	good, few := machineReport(&probe.Machine{SyncMillis: 300, Hashes: 1000, OpenFiles: 1 << 20}),
		machineReport(&probe.Machine{SyncMillis: 300, Hashes: 1, OpenFiles: 1024})
	unmeasured := machineReport(&probe.Machine{Says: "no space left on device"})
	crashed := podWith(again(4, "exec"), 0)
	for name, test := range map[string]struct {
		here, other podState
		pods        map[string]*corev1.Pod
		want        trial.Result
		says        string
	}{
		"no pod yet":          {none, none, nil, trial.Pending, ""},
		"no node of the pool": {podWith(reported(""), 0), podWith(reported(""), 0), pods(false), "", ""},
		"not yet":             {none, good, pods(true), trial.Pending, ""},
		"control not yet":     {good, none, pods(true), trial.Pending, ""},
		"crashed":             {crashed, good, pods(true), trial.Inconclusive, "the measuring pod failed"},
		"control crashed":     {good, crashed, pods(true), "", ""},
		"equal":               {good, good, pods(true), trial.Passed, "are like those of node w-1"},
		"a lower limit":       {few, good, pods(true), trial.Failed, "node t-0 is worse than node w-1: a process may open 1024 files"},
		"cannot write": {unmeasured, good, pods(true), trial.Failed,
			"node t-0 cannot write 16 MiB to the disk (no space left on device), but node w-1 can"},
		"no node can write":       {unmeasured, unmeasured, pods(true), "", ""},
		"an incomplete report":    {podWith(reported(""), 0), good, pods(true), trial.Inconclusive, "is incomplete"},
		"control says too little": {good, podWith(reported(""), 0), pods(true), "", ""},
	} {
		got := performance(a, test.here, test.other, "t-0", test.pods)
		if got.Result != test.want || !strings.Contains(got.Says, test.says) {
			t.Errorf("%s: %+v, want %s %q", name, got, test.want, test.says)
		}
	}
}

// set is a DaemonSet with pods on so many nodes.
func set(name string, wanted, ready int32, spec corev1.PodSpec) appsv1.DaemonSet {
	return appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID(name)},
		Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
		Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: wanted, NumberReady: ready},
	}
}

// daemonPod is a pod of a DaemonSet on the node.
func daemonPod(set string, ready bool, restarts int32, age time.Duration) corev1.Pod {
	yes, status := true, corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-age)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", UID: types.UID(set), Controller: &yes}}},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: restarts}},
		},
	}
	if restarts > 0 {
		pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 7}
	}
	return pod
}

func TestDaemons(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t-0", Labels: map[string]string{"disk": "ssd"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, {Key: "gpu", Effect: corev1.TaintEffectNoSchedule},
		{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
	}}}
	tolerant := corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}}
	with := func(change func(*corev1.PodSpec)) corev1.PodSpec {
		s := *tolerant.DeepCopy()
		change(&s)
		return s
	}
	required := func(key string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}},
		}}}}
	}
	const name = "kube-system/a"
	absent := []trial.Daemon{{Name: name, Why: "no pod on the node"}}
	fine := []trial.Daemon{{Name: name, Ready: true}}
	leaving := daemonPod("a", true, 0, time.Minute)
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	pulling := daemonPod("a", false, 0, time.Minute)
	pulling.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: strings.Repeat("x", 300)}
	for what, test := range map[string]struct {
		set     appsv1.DaemonSet
		pods    []corev1.Pod
		ignored []string
		want    []trial.Daemon
	}{
		"none there":            {set("a", 4, 3, tolerant), nil, nil, absent},
		"fine":                  {set("a", 4, 4, tolerant), []corev1.Pod{daemonPod("a", true, 0, time.Minute)}, nil, fine},
		"ignored":               {set("a", 4, 3, tolerant), nil, []string{name}, nil},
		"another is ignored":    {set("a", 4, 4, tolerant), nil, []string{"default/a"}, absent},
		"ill elsewhere":         {set("a", 5, 3, tolerant), nil, nil, nil},
		"well enough elsewhere": {set("a", 6, 4, tolerant), nil, nil, absent},
		"ill but for here":      {set("a", 5, 4, tolerant), []corev1.Pod{daemonPod("a", true, 0, 0)}, nil, nil},
		"well but for here":     {set("a", 5, 4, tolerant), []corev1.Pod{daemonPod("a", false, 0, 0)}, nil, []trial.Daemon{{Name: name}}},
		"nowhere else":          {set("a", 1, 1, tolerant), []corev1.Pod{daemonPod("a", true, 0, 0)}, nil, nil},
		"not for the taint":     {set("a", 4, 4, corev1.PodSpec{}), nil, nil, nil},
		"there for all that":    {set("a", 4, 4, corev1.PodSpec{}), []corev1.Pod{daemonPod("a", true, 0, 0)}, nil, fine},
		"not for the label":     {set("a", 4, 4, with(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "hdd"} })), nil, nil, nil},
		"for the label":         {set("a", 4, 4, with(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} })), nil, nil, absent},
		"not for the affinity":  {set("a", 4, 4, with(func(s *corev1.PodSpec) { s.Affinity = required("gone") })), nil, nil, nil},
		"for the affinity":      {set("a", 4, 4, with(func(s *corev1.PodSpec) { s.Affinity = required("disk") })), nil, nil, absent},
		"restarted": {set("a", 4, 4, tolerant), []corev1.Pod{daemonPod("a", true, 3, 0)}, nil,
			[]trial.Daemon{{Name: name, Ready: true, Restarts: 3, Why: "container c ended with exit code 7"}}},
		"another's pod":        {set("a", 4, 4, tolerant), []corev1.Pod{daemonPod("b", true, 0, 0)}, nil, absent},
		"a pod on its way out": {set("a", 4, 4, tolerant), []corev1.Pod{leaving}, nil, absent},
		"replaced":             {set("a", 4, 4, tolerant), []corev1.Pod{daemonPod("a", false, 9, time.Hour), daemonPod("a", true, 0, 0)}, nil, fine},
		"does not get its image": {set("a", 4, 3, tolerant), []corev1.Pod{pulling}, nil,
			[]trial.Daemon{{Name: name, Why: "container c: ImagePullBackOff: " + brief(strings.Repeat("x", 300))}}},
	} {
		test.set.Status.CurrentNumberScheduled = test.set.Status.DesiredNumberScheduled
		if len(test.pods) == 0 {
			test.set.Status.CurrentNumberScheduled--
		}
		var found []trial.Daemon
		placed, _ := daemonsOn(node, &daemonPods{[]appsv1.DaemonSet{test.set}, test.pods}, test.ignored, nil)
		for _, p := range placed {
			found = append(found, daemon(p.set.Namespace+"/"+p.set.Name, p.pod))
		}
		if diff := cmp.Diff(test.want, found); diff != "" {
			t.Errorf("%s:\n%s", what, diff)
		}
	}
}

func TestTwins(t *testing.T) {
	node := func(name, machine, system string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.NodeSpec{ProviderID: "cloud:///" + name},
			Status: corev1.NodeStatus{
				NodeInfo:   corev1.NodeSystemInfo{MachineID: machine, SystemUUID: system},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			}}
	}
	for name, test := range map[string]struct {
		machine, system string
		want            []string
		known           bool
	}{
		"its own":        {"m-0", "s-0", nil, true},
		"another's":      {"m-1", "s-0", []string{"w-1"}, true},
		"its board's":    {"m-0", "s-2", []string{"w-2"}, true},
		"two others'":    {"m-1", "s-2", []string{"w-1", "w-2"}, true},
		"none":           {"", "", nil, false},
		"half":           {"m-0", "", nil, false},
		"half another's": {"m-1", "", []string{"w-1"}, false},
	} {
		it := node("t-0", test.machine, test.system)
		it.CreationTimestamp = metav1.NewTime(noon)
		got := (&attempt{nodes: []corev1.Node{node("w-2", "m-2", "s-2"), it, node("w-1", "m-1", "s-1"), node("w-3", "", "")}}).twins(&it)
		if diff := cmp.Diff(test.want, got.proven); diff != "" || got.known != test.known || len(got.doubtful) > 0 {
			t.Errorf("%s: %+v\n%s", name, got, diff)
		}
	}
}

func TestNeighbours(t *testing.T) {
	node := func(name string, change func(*corev1.Node)) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if change != nil {
			change(&n)
		}
		return n
	}
	it := node("t-0", nil)
	a := &attempt{nodes: []corev1.Node{
		node("w-9", nil), it, node("a-tainted", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "gpu"}} }), node("w-1", nil),
		node("w-2", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node("w-3", func(n *corev1.Node) { n.Status.Conditions = nil }),
		node("w-4", func(n *corev1.Node) { n.Labels[v1alpha1.TrialKey] = "another" }),
		node("w-5", func(n *corev1.Node) { n.Annotations[v1alpha1.ReservationAnnotation] = "{}" }), node("w-7", nil),
		node("w-6", func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }),
	}, reserved: map[types.UID]v1alpha1.Reservation{"w-7": {}}}
	if diff := cmp.Diff([]string{"w-1", "w-4", "w-5", "w-9", "a-tainted"}, a.neighbours(&it)); diff != "" {
		t.Error(diff)
	}
	for answering, want := range map[string]string{"w-1": "w-9", "w-9": "w-1"} {
		if got := controlling([]string{"w-1", "w-9"}, answering); got != want {
			t.Errorf("%s answers and %s controls", answering, got)
		}
	}
	if got := controlling([]string{"w-1"}, "w-1"); got != "w-1" {
		t.Error(got)
	}
}
