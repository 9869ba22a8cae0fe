package kubelet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bootWith starts a kubelet on a disk, with a defect of its node.
func (w *kubeletEnv) bootWith(name string, ail func(*Node)) *Kubelet {
	w.Helper()
	node := Node{
		Name: name, ProviderID: "azure:///" + name, IP: "10.240.0.4", Root: w.disk(),
		Info: corev1.NodeSystemInfo{BootID: "boot-" + name, MachineID: "machine-" + name},
	}
	if ail != nil {
		ail(&node)
	}
	k := w.service.Prepare(w.Context(), node)
	w.Cleanup(k.Kill)
	if err := k.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
	return k
}

// readiness of a Node, with the kubelet's reason.
func (w *kubeletEnv) readiness(name string) string {
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status) + " " + c.Reason
		}
	}
	return "no condition"
}

const (
	fine    = "True KubeletReady"
	without = "False KubeletNotReady"
)

// daemon is a pod of a DaemonSet.
func daemon(name, node, set string) *corev1.Pod {
	pod := simulated(name, node, "example.com/agent:1")
	controller := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set, Controller: &controller}}
	return pod
}

func TestOutageOfAllNodes(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootWith("old", nil)
	if err := w.service.SetOutage(EveryNode); err != nil {
		t.Fatal(err)
	}
	w.eventually("the node that was there is not Ready", func() bool { return w.readiness("old") == without })
	w.bootWith("new", nil)
	if got := w.readiness("new"); got != without {
		t.Errorf("a node that joins meanwhile is %s", got)
	}
	w.create(simulated("waits", "old", "example.com/app:1"))
	onHost := simulated("host", "old", "example.com/app:1")
	onHost.Spec.HostNetwork = true
	w.create(onHost)
	w.eventually("a pod on the host's network runs", func() bool { return w.pod("host").Status.Phase == corev1.PodRunning })
	if phase := w.pod("waits").Status.Phase; phase == corev1.PodRunning {
		t.Error("a pod that needs the network runs")
	}
	if err := w.service.SetOutage(NoOutage); err != nil {
		t.Fatal(err)
	}
	w.eventually("all is well again", func() bool {
		return w.readiness("old") == fine && w.readiness("new") == fine && w.pod("waits").Status.Phase == corev1.PodRunning
	})
	if err := w.service.SetOutage("weather"); err == nil || !strings.Contains(err.Error(), "is unknown") {
		t.Errorf("an outage that there is not: %v", err)
	}
}

func TestOutageOfNewNodes(t *testing.T) {
	w := newKubeletEnv(t, nil)
	old := w.bootWith("old", nil)
	if err := w.service.SetOutage(NewNodes); err != nil {
		t.Fatal(err)
	}
	w.bootWith("new", nil)
	old.heartbeat(t.Context())
	if w.readiness("old") != fine || w.readiness("new") != without {
		t.Errorf("the old node is %s, the new one %s", w.readiness("old"), w.readiness("new"))
	}
	if err := w.service.SetOutage(NoOutage); err != nil {
		t.Fatal(err)
	}
	w.eventually("the new one is Ready", func() bool { return w.readiness("new") == fine })
}

func TestDefectNotReadyLater(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootWith("healthy", nil)
	k := w.bootWith("ails", func(n *Node) { n.ReadyFor = 10 * time.Minute })
	if got := w.readiness("ails"); got != fine {
		t.Errorf("it begins as %s", got)
	}
	w.eventually("it is not Ready any more", func() bool { return w.readiness("ails") == without })
	k.Pause()
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.readiness("ails") == fine || w.readiness("healthy") != fine {
		t.Errorf("a restart of its kubelet made it %s; the other node is %s", w.readiness("ails"), w.readiness("healthy"))
	}
}

func TestDefectCrashingDaemonSet(t *testing.T) {
	w := newKubeletEnv(t, nil)
	w.bootWith("ails", func(n *Node) { n.Crashes = func(set string) bool { return set == "default/agent" } })
	w.bootWith("healthy", nil)
	for _, pod := range []*corev1.Pod{
		daemon("crashes", "ails", "agent"), daemon("other", "ails", "proxy"), daemon("elsewhere", "healthy", "agent"), simulated("app", "ails", "example.com/app:1"),
	} {
		w.create(pod)
	}
	w.eventually("it was restarted three times, and waits for the next", func() bool {
		status := w.pod("crashes").Status.ContainerStatuses
		return len(status) == 1 && status[0].RestartCount >= 3 && status[0].State.Waiting != nil && status[0].State.Waiting.Reason == "CrashLoopBackOff" &&
			status[0].LastTerminationState.Terminated != nil && status[0].LastTerminationState.Terminated.ExitCode == 1
	})
	for _, name := range []string{"other", "elsewhere", "app"} {
		w.eventually("pod "+name+" is Ready", func() bool { return podReady(w.pod(name)) })
		if n := w.pod(name).Status.ContainerStatuses[0].RestartCount; n > 0 {
			t.Errorf("pod %s was restarted %d times", name, n)
		}
	}
	if podReady(w.pod("crashes")) {
		t.Error("a pod that crashes is Ready")
	}
	w.remove("crashes")
	w.eventually("it can be removed", func() bool { return w.pod("crashes").Name == "" })
}

func TestIsolatedProcesses(t *testing.T) {
	w := newKubeletEnv(t, map[string]string{"example.com/shell": "/bin/sh"})
	w.bootWith("ails", func(n *Node) { n.Isolated = true })
	w.bootWith("healthy", nil)
	// look returns the kernel's name of a process's network namespace.
	look := func(name, node string, host bool) {
		pod := simulated(name, node, "example.com/shell:1")
		pod.Spec.HostNetwork, pod.Spec.RestartPolicy = host, corev1.RestartPolicyNever
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "readlink /proc/self/ns/net >$HOME/termination-log"}
		w.create(pod)
		w.eventually("pod "+name+" is done", func() bool { return w.pod(name).Status.Phase == corev1.PodSucceeded })
	}
	look("cut-off", "ails", false)
	look("on-host", "ails", true)
	look("normal", "healthy", false)
	network := func(name string) string { return w.pod(name).Status.ContainerStatuses[0].State.Terminated.Message }
	if network("normal") == "" || network("normal") != network("on-host") || network("cut-off") == "" || network("cut-off") == network("normal") {
		t.Errorf("networks are %q for the pod of the node without, %q for one on the host's, and %q for one of another node",
			network("cut-off"), network("on-host"), network("normal"))
	}
}
