//go:build machines

package real

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNodes follows generations of real nodes: released kubelet, kubeadm, containerd, runc and CNI plugins, a real
// control plane, and a registry that records each request. The donor joins, is used, patched and rebooted, and a copy
// of its disk is generalized. Secrets of pods are in every place of a node. No fragment may be left on the copy. The
// clones must join automatically as separate nodes and run the workload from their images, while a generic machine
// pulls the image.
func TestNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a kubelet and a containerd that are built from source")
	}
	n := newNeedles()
	c := newCluster(t, n.in("image pull secret"))
	c.lap("the control plane serves")
	c.publish(t, "1.0")
	platform := c.nodeImage(t)
	c.deploy(t, n)
	c.lap("the platform image is made")

	recipe, token := c.nodeRecipe(t)
	n.add("join token", token[strings.Index(token, ".")+1:])
	donor := c.bootNode(t, "first-node", copyDisk(t, platform, c.imageOf("first-node")), recipe)
	_, before := c.awaitPod(t, donor.name, "")
	c.lap("the donor has joined and runs the workload")
	donor.sh(t, "apt-get update -q && apt-get install -q -y "+tools)
	donor = c.patch(t, donor, func() *machine { return c.bootNode(t, donor.name, donor.image, recipe) })
	pod, _ := c.awaitPod(t, donor.name, before)
	c.lap("the donor is patched, was rebooted and runs the workload")
	t.Run("patch", func(t *testing.T) { c.testPatchOfServingNode(t, donor) })
	c.lap("a patch of the serving node keeps the container runtime")
	c.use(t, n, donor, pod)
	was := c.nodeIdentity(t, donor)
	served := donor.snapshot(t, c.imageOf("served"))
	prototype := c.captureNode(t, donor)
	c.lap("the donor's power is cut, and a copy of its disk generalized")

	t.Run("disk", func(t *testing.T) { c.testNodeDisk(t, n, served, prototype, was) })
	c.lap("its disk is searched")
	t.Run("control", func(t *testing.T) { c.testNodeControl(t, served, was) })
	c.lap("a copy of the disk that was not generalized was refused")
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), donor.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("clones", func(t *testing.T) { c.testNodeClones(t, platform, prototype, was) })
}

// deploy runs one pod of the workload on every node.
func (c *cluster) deploy(t *testing.T, n *needles) {
	t.Helper()
	ctx, labels := t.Context(), map[string]string{"app": "workload", "needle": n.in("label")}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}
	}
	login := base64.StdEncoding.EncodeToString([]byte(c.registry.user + ":" + c.registry.password))
	for _, secret := range []*corev1.Secret{
		{ObjectMeta: meta("workload"), StringData: map[string]string{"variable": n.in("variable from a Secret"), "file": n.in("mounted Secret")}},
		{ObjectMeta: meta("pull"), Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{
			corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, registryName, login),
		}},
	} {
		if _, err := c.client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod := c.podSpec(n.in("argument"), corev1.EnvVar{Name: "NEEDLE", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "workload"}, Key: "variable"},
	}})
	set := &appsv1.DaemonSet{ObjectMeta: meta("workload"), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"needle": n.in("annotation")}}, Spec: pod},
	}}
	if _, err := c.client.AppsV1().DaemonSets(set.Namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) podSpec(argument string, variable corev1.EnvVar) corev1.PodSpec {
	now := int64(0)
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: &now,
		ImagePullSecrets:              []corev1.LocalObjectReference{{Name: "pull"}},
		Volumes: []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "workload"}}},
		},
		Containers: []corev1.Container{{
			Name: "app", Image: workloadImage, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve", argument}, Env: []corev1.EnvVar{variable},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}, {Name: "secret", MountPath: "/secret"}},
		}},
	}
}

// use uses the donor: the workload writes to every writable place of a container, a user runs commands in a
// container, and an earlier pod is gone.
func (c *cluster) use(t *testing.T, n *needles, donor *machine, pod string) {
	t.Helper()
	ctx, pods := t.Context(), c.client.CoreV1().Pods(metav1.NamespaceDefault)
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Spec: c.podSpec("serve", corev1.EnvVar{Name: "NEEDLE", Value: n.in("variable of a pod that is gone")})}
	gone.Spec.NodeName = donor.name
	if _, err := pods.Create(ctx, gone, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "another pod to run", func() bool {
		p, err := pods.Get(ctx, gone.Name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning
	})
	c.inPod(t, gone.Name, n.in("log of a pod that is gone")+"\n", "/app", "write", "/proc/1/fd/1")
	c.inPod(t, gone.Name, n.in("file of a container that is gone"), "/app", "write", "/written")
	if err := pods.Delete(ctx, gone.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "it to be gone", func() bool {
		_, err := pods.Get(ctx, gone.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	c.inPod(t, pod, n.in("container's log")+"\n", "/app", "write", "/proc/1/fd/1")
	c.inPod(t, pod, n.in("container's writable layer"), "/app", "write", "/written")
	c.inPod(t, pod, n.in("emptyDir"), "/app", "write", "/scratch/written")
	go func() {
		// The process runs until the node is off, without output.
		_, _ = c.exec(ctx, pod, "", "/app", "hold", "NEEDLE="+n.in("variable of an exec"))
	}()
	await(t, "the exec to run", func() bool {
		_, err := donor.try("grep -qs " + n.in("variable of an exec") + " /proc/[0-9]*/environ")
		return err == nil
	})
}

// nodeIdentity has values that no two nodes may share, by place.
type nodeIdentity struct {
	// own are a node's own values.
	own map[string]string
	// traces are numbers of a node's pods, which are different on each node.
	traces map[string][]string
}

func (c *cluster) nodeIdentity(t *testing.T, m *machine) nodeIdentity {
	t.Helper()
	// containerd creates its ID at the first request.
	m.sh(t, "ctr version")
	id := nodeIdentity{own: map[string]string{}, traces: map[string][]string{}}
	sums := m.sh(t, "cd / && sha256sum etc/machine-id etc/ssh/ssh_host_*_key var/lib/kubelet/pki/kubelet-client-current.pem var/lib/kubelet/pki/kubelet.key "+
		"var/lib/containerd/io.containerd.grpc.v1.introspection/uuid")
	for line := range strings.Lines(sums) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		id.own[path] = sum
	}
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	info := node.Status.NodeInfo
	id.own["the Node's UID"], id.own["the Node's machine ID"], id.own["the Node's system UUID"] = string(node.UID), info.MachineID, info.SystemUUID
	for what, command := range map[string]string{
		"containers": "ctr -n k8s.io containers ls -q 2>/dev/null", "pods": "ls /var/lib/kubelet/pods",
		// host-local keeps a file per assigned address, with the container in the first line.
		"CNI leases": "head -qn1 /var/lib/cni/networks/pods/10.*",
	} {
		id.traces[what] = strings.Fields(m.sh(t, command))
		if len(id.traces[what]) == 0 {
			t.Errorf("%s has no %s, so that nothing can be compared", m.name, what)
		}
	}
	for where, value := range id.own {
		if value == "" {
			t.Errorf("%s has nothing at %s, so that nothing can be compared", m.name, where)
		}
	}
	return id
}

// sharedBetween names the values that two nodes share, sorted.
func sharedBetween(a, b nodeIdentity) (same []string) {
	for where, value := range a.own {
		if b.own[where] == value {
			same = append(same, where)
		}
	}
	for what, values := range a.traces {
		if slices.ContainsFunc(values, func(v string) bool { return slices.Contains(b.traces[what], v) }) {
			same = append(same, what)
		}
	}
	slices.Sort(same)
	return same
}
