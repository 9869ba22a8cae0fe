//go:build machines

package real

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/patch"
)

// serving are the facts of a node that a restart of its container runtime, of its kubelet or of a container would change.
type serving struct {
	containerd, kubelet, container, started string
	restarts                                int32
}

func (c *cluster) serving(t *testing.T, m *machine) serving {
	t.Helper()
	pod, container := c.awaitPod(t, m.name, "")
	p, err := c.client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := serving{
		containerd: m.sh(t, "systemctl show -P MainPID containerd.service"), kubelet: m.sh(t, "systemctl show -P MainPID kubelet.service"), container: container,
	}
	status := p.Status.ContainerStatuses[0]
	if s.restarts = status.RestartCount; status.State.Running != nil {
		s.started = status.State.Running.StartedAt.String()
	}
	return s
}

// testPatchOfServingNode: patches of a node with a real kubelet and containerd. Newer packages of both are held. A patch that
// needs a newer containerd is refused before anything changes. No pod is restarted, and the node stays Ready.
func (c *cluster) testPatchOfServingNode(t *testing.T, donor *machine) {
	sources := donor.sh(t, "cat /etc/apt/sources.list")
	p := &patching{lab: c.lab, machine: donor, repo: c.serveApt(t)}
	p.repo.use(t, donor)
	p.repo.add(t, suiteStable, aptPackage{name: "tool-a", version: "1.0"})
	p.publishAll(t)
	donor.sh(t, "apt-get update -q && apt-get install -q -y tool-a")
	before := c.serving(t, donor)

	// The scripts do what the packages of the vendors do.
	for _, name := range []string{"containerd.io", "kubelet"} {
		unit := strings.TrimSuffix(name, ".io")
		p.repo.add(t, suiteSecurity, aptPackage{name: name, version: "99.0", scripts: map[string]string{"postinst": "systemctl restart " + unit + ".service\n"}})
	}
	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-a", version: "2.0", fields: []string{"Depends: containerd.io (>= 99)"}})
	p.publishAll(t)
	r := p.order(t, v1alpha1.OrderPatch, nil)
	isFailure(t, r, patch.HeldPackage, "the patches need a change of the held packages containerd.io; nothing was installed")
	if r.Before != r.After {
		t.Error("a refused patch has changed packages")
	}

	p.repo.add(t, suiteSecurity, aptPackage{name: "tool-a", version: "3.0"})
	p.publishAll(t)
	r = p.order(t, v1alpha1.OrderPatch, nil)
	isComplete(t, r, "tool-a")
	held := []string{}
	for _, h := range r.Held {
		held = append(held, h.Name)
	}
	slices.Sort(held)
	if !slices.Equal(held, []string{"containerd.io", "kubelet"}) {
		t.Errorf("held are %v", held)
	}

	if after := c.serving(t, donor); after != before {
		t.Errorf("the node serves with %+v, before with %+v", after, before)
	}
	n, err := c.client.CoreV1().Nodes().Get(t.Context(), donor.name, metav1.GetOptions{})
	if err != nil || !ready(n.Status.Conditions) {
		t.Errorf("node %s is not Ready: %v", donor.name, err)
	}
	write(t, donor.root+"/etc/apt/sources.list", sources+"\n", 0o644)
	donor.sh(t, "rm -r /etc/apt/keyrings/test.asc /etc/apt/apt.conf.d/99test && apt-get purge -q -y tool-a")
}
