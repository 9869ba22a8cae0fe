package clusterapi

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/machine"
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

// TestCapture captures a node of a MachineDeployment. Workshop and trial run on separate Machines, and nodes join with bootstrap data of
// the kubeadm provider.
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
		e.Start("history", e.Pool).ExpectExit(0, p.Spec.Version, "current")
	}, func() {
		if template := e.template(); template != e.Pool {
			t.Errorf("the pool names template %s, not its own", template)
		}
	})
}

// TestManagementAway disconnects the management cluster when the cloud has the copy of the donor's disk. The capture waits, and goes on
// after the return of the management cluster. The donor serves all the time.
func TestManagementAway(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "away")
	e.patchDonor()
	donor, pod, barrier := e.Machine(e.Donor), e.StartStubbornPod(e.Donor), e.Barrier()
	away := make(chan struct{})
	barrier.After(sandboxtest.CreateSnapshot, func() {
		barrier.Cut(sandboxtest.Management)
		close(away)
	})
	capture := e.captureWithTrial(e.Donor)
	<-away
	e.Eventually("the capture waits for the management cluster", func() (bool, string) {
		return strings.Contains(capture.Output(), "waiting for the cloud since "), capture.Output()
	})
	e.AssertServes(e.Donor)
	barrier.Restore(sandboxtest.Management)
	capture.ExpectExit(0, "stays in service", "out of service for 0s", "Provisioned: Passed")
	e.assertCopied(donor, 2)
	e.AssertServed(pod)
}
