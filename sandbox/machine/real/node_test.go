//go:build machines

package real

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/internal/generalize"
)

// TestNodes is the life of a line of real nodes: kubelet, kubeadm, containerd, runc and CNI plugins as they
// are shipped, a real control plane, and a registry that notes each request. Secrets of pods are put wherever a
// node keeps them; not a fragment may be left on the generalized disk, and its clones must join by themselves
// and run the workload from the images that they have.
func TestNodes(t *testing.T) {
	n := newNeedles()
	c := newCluster(t, n.in("image pull secret"))
	c.lap("the control plane serves")
	platform := c.nodeImage(t)
	c.deploy(t, n)
	c.lap("the platform image is made")

	recipe, token := c.nodeRecipe(t)
	n.add("join token", token[strings.Index(token, ".")+1:])
	donor := c.bootNode(t, "first-node", platform, recipe)
	pod := c.awaitPod(t, donor.name)
	c.lap("the donor has joined and runs the workload")
	c.use(t, n, donor, pod)
	was := c.nodeIdentity(t, donor)
	donor.powerOff(t)
	c.lap("the donor was put to use and is off")

	t.Run("control", func(t *testing.T) { c.testNodeControl(t, donor.image, was) })
	c.lap("a copy of the disk that was not generalized was refused")
	pulled := c.registry.requests()
	t.Run("disk", func(t *testing.T) { c.testNodeDisk(t, n, donor.image) })
	c.lap("its disk is generalized and searched")
	t.Run("clones", func(t *testing.T) {
		c.testNodeClones(t, donor.image, was)
		if asked := c.registry.requests()[len(pulled):]; len(asked) > 0 {
			t.Errorf("the clones have asked the registry %d times, first: %s", len(asked), asked[0])
		}
	})
	c.lap("two clones have joined and run the workload")
}

// deploy has one pod of the workload run on every node.
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

// use puts the donor to use: the workload writes wherever a container can, somebody looks into it, and a pod
// that was there before is gone.
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
		// It stays until the node is off, and then has nothing to say.
		_, _ = c.exec(ctx, pod, "", "/app", "hold", "NEEDLE="+n.in("variable of an exec"))
	}()
	await(t, "the exec to run", func() bool {
		_, err := donor.try("grep -qs " + n.in("variable of an exec") + " /proc/[0-9]*/environ")
		return err == nil
	})
}

// testNodeDisk generalizes a node's disk, as a copy of a disk is, and looks for what is left. Search and verifier
// must have found what is to be found on the disk as it was.
func (c *cluster) testNodeDisk(t *testing.T, n *needles, prototype string) {
	before := n.inImage(t, prototype)
	t.Logf("of %d needles %d are on the donor's disk: %s", len(n.values), len(before), strings.Join(before, ", "))
	for _, place := range []string{"variable from a Secret", "argument", "annotation", "label", "container's log", "container's writable layer", "emptyDir"} {
		if !slices.Contains(before, place) {
			t.Errorf("the search does not find the needle that is in the %s", place)
		}
	}
	mounted(t, prototype, func(root string) {
		c.verify(t, 4, root, "--profile", "bootstrap")
		if left := n.inTree(t, root); len(left) == 0 {
			t.Error("no file of the donor has a needle: this search finds nothing")
		}
	})
	manifest := filepath.Join(c.dir, "node.json")
	mounted(t, prototype, func(root string) {
		t.Logf("kamino generalize:\n%s", run(t, c.kamino, "generalize", "--root", root, "--profile", "bootstrap"))
		run(t, "cp", filepath.Join(root, generalize.ManifestPath), manifest)
	})
	// Blocks that the kernel had set aside for writers are free once nobody has the file system.
	mounted(t, prototype, func(root string) {
		run(t, "fstrim", root)
		if left := n.inTree(t, root); len(left) > 0 {
			t.Errorf("files of the generalized disk have needles:\n%s", strings.Join(left, "\n"))
		}
		c.verify(t, 0, root)
	})
	run(t, "e2fsck", "-fn", prototype)
	if left := n.inImage(t, prototype); len(left) > 0 {
		t.Errorf("in the blocks of the generalized disk there are still needles: %s", strings.Join(left, ", "))
	}
	c.verify(t, 0, prototype, "--manifest", manifest, "--free-only")
	// The disk itself knows the keys that packages and container images brought, so blocks in use are told of as well.
	mounted(t, prototype, func(root string) { c.verify(t, 0, prototype, "--manifest", manifest, "--tree", root) })
}

// nodeIdentity is what no two nodes may have in common, by where it is.
func (c *cluster) nodeIdentity(t *testing.T, m *machine) map[string]string {
	t.Helper()
	// containerd makes its number when it is first asked.
	m.sh(t, "ctr version")
	id := map[string]string{}
	sums := m.sh(t, "cd / && sha256sum etc/machine-id etc/ssh/ssh_host_*_key var/lib/kubelet/pki/kubelet-client-current.pem var/lib/kubelet/pki/kubelet.key "+
		"var/lib/containerd/io.containerd.grpc.v1.introspection/uuid")
	for line := range strings.Lines(sums) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		id[path] = sum
	}
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id["the Node's UID"], id["the Node's machine ID"] = string(node.UID), node.Status.NodeInfo.MachineID
	if len(id) < 8 {
		t.Fatalf("%s has not all that makes a node: %v", m.name, id)
	}
	return id
}

func sameIn(a, b map[string]string) (same []string) {
	for where, value := range a {
		if b[where] == value {
			same = append(same, where)
		}
	}
	slices.Sort(same)
	return same
}

// testNodeClones boots two clones at once. Each must join by itself, be a node of its own, and run the
// workload from the image that the donor pulled, with every file of it as it was.
func (c *cluster) testNodeClones(t *testing.T, prototype string, was map[string]string) {
	var on [2]*machine
	ids := map[string]map[string]string{"first-node": was}
	for i := range on {
		name := fmt.Sprintf("clone-%d", i+1)
		recipe, _ := c.nodeRecipe(t)
		on[i] = c.bootNode(t, name, copyDisk(t, prototype, c.imageOf(name)), recipe)
	}
	for _, m := range on {
		pod := c.awaitPod(t, m.name)
		c.inPod(t, pod, "", "/app", "check", fmt.Sprint(workloadFiles))
		id := c.nodeIdentity(t, m)
		for other, theirs := range ids {
			if same := sameIn(theirs, id); len(same) > 0 {
				t.Errorf("%s and %s share: %s", other, m.name, strings.Join(same, ", "))
			}
		}
		ids[m.name] = id
		if state, failed := m.sh(t, "systemctl is-system-running || true"), m.sh(t, "systemctl --failed --plain --no-legend"); state != "running" {
			t.Errorf("%s is %s: %s", m.name, state, failed)
		}
		m.sh(t, "test -s /run/cluster-api/bootstrap-success.complete")
		t.Logf("%s: multi-user %.1f s, cloud-init done %.1f s after systemd began", m.name, m.since(t, "multi-user.target"), m.since(t, "cloud-final.service"))
	}
	for _, m := range on {
		m.kill()
	}
	for _, m := range on {
		m.cutPower(t)
		discard(t, m.image)
	}
}

// testNodeControl boots a copy of the disk that was not generalized: kubeadm must refuse to join over the
// donor's files, and the identities must be the donor's.
func (c *cluster) testNodeControl(t *testing.T, served string, was map[string]string) {
	recipe, _ := c.nodeRecipe(t)
	m := c.bootNode(t, "copy", copyDisk(t, served, c.imageOf("copy")), recipe)
	log := m.sh(t, "cat /var/log/cloud-init-output.log")
	for _, want := range []string{"FileAvailable--etc-kubernetes-kubelet.conf", "FileAvailable--etc-kubernetes-pki-ca.crt"} {
		if !strings.Contains(log, want) {
			t.Errorf("kubeadm has not refused for %s:\n%s", want, log)
		}
	}
	content, err := os.ReadFile(filepath.Join(m.root, "etc/machine-id"))
	if err != nil {
		t.Fatal(err)
	}
	if sumOf(content) != was["etc/machine-id"] {
		t.Error("the copy has a machine ID of its own: this comparison finds nothing")
	}
	m.cutPower(t)
	discard(t, m.image)
}
