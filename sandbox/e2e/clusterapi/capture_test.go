package clusterapi

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// identityFiles contain the identity and credential of one node.
var identityFiles = []string{"etc/machine-id", "etc/ssh/ssh_host_ed25519_key", "var/lib/kubelet/pki/kubelet-client-current.pem",
	"var/lib/kubelet/pki/kubelet.key", "var/lib/cloud/data/instance-id"}

func (e *env) identityOf(m machine.Status) map[string]string {
	e.Helper()
	identity := map[string]string{}
	for _, file := range identityFiles {
		content, err := os.ReadFile(filepath.Join(m.Disk, file))
		if err != nil || len(content) == 0 {
			e.Fatalf("/%s of %s: %d bytes, %v", file, m.Node, len(content), err)
		}
		identity[file] = string(content)
	}
	return identity
}

// TestCapture captures a node of a MachineDeployment. The trial runs on a separate Machine, nodes join with
// bootstrap data of the kubeadm provider, and the donor does not return.
func TestCapture(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "captured")
	donor := e.identityOf(e.Machines[0])
	e.patchDonor()
	packages := e.Machine(e.Donor).Packages
	e.captureTwiceAndRestore(func(copied machine.Status) {
		p := e.AssertSucceeded(e.Donor)
		if p.Spec.Settings.Generalize.Profile != v1alpha1.ProfileBootstrap {
			t.Errorf("the profile is %s", p.Spec.Settings.Generalize.Profile)
		}
		if !maps.Equal(copied.Packages, packages) || copied.Boots != 1 {
			t.Errorf("node %s has the packages %v, and booted %d times", copied.Node, copied.Packages, copied.Boots)
		}
		for file, content := range e.identityOf(copied) {
			if content == donor[file] {
				t.Errorf("node %s has its donor's /%s", copied.Node, file)
			}
		}
		for _, taint := range e.Node(copied.Node).Spec.Taints {
			if taint.Effect == corev1.TaintEffectNoSchedule {
				t.Errorf("the copy takes no pods: %+v", taint)
			}
		}
		if all := sandbox.Fleet().Collisions(); len(all) > 0 {
			t.Error(all[0].String())
		}
		e.StartProgram("kamino", "history", e.Pool).ExpectExit(0, p.Spec.Version, "current")
	}, func() {
		if template := e.template(); template != e.Pool {
			t.Errorf("the pool names template %s, not its own", template)
		}
	})
}

// TestManagementAwayPastTheDeadline disconnects the management cluster during the drain. After the deadline the
// donor accepts pods again with an unchanged disk, although its Machine cannot be released. After the return of the
// management cluster, the Machine is released. The added node stays.
func TestManagementAwayPastTheDeadline(t *testing.T) {
	onlyOn(t, pool.AWS)
	t.Parallel()
	e := newEnv(t, "overdue")
	barrier, cordoned := e.Barrier(), make(chan struct{})
	cordon := sandboxtest.Request{Server: sandboxtest.APIServer, Pattern: "^PATCH .*/nodes/" + e.Donor + "$", Texts: []string{`"unschedulable":true`}}
	barrier.After(cordon, func() {
		barrier.Cut(sandboxtest.Management)
		close(cordoned)
	})
	capture := e.CaptureWith(e.Donor, "outOfService: {deadline: 5s}")
	<-cordoned
	e.Eventually("the donor takes pods while it is reserved", func() (bool, string) {
		n := e.Node(e.Donor)
		return !n.Spec.Unschedulable && n.Annotations[v1alpha1.ReservationAnnotation] != "", capture.Output()
	})
	barrier.Restore(sandboxtest.Management)
	capture.ExpectExit(exitFailed, "exceeded the deadline of 5s out of service", "takes pods again")
	e.assertWhole(3)
	e.assertUntouched(e.Machines[0])
	e.assertUntouched(e.Machines[1])
}
