package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/world"
)

// The demo with a pool of EKS. Its nodes join with the role of their instance at every boot. The donor stays.

// eksPool is the pool of the demo.
func eksPool() pool.Spec {
	spec := world.DefaultPool()
	spec.Profile = "eks"
	return spec
}

func (s *scenario) eksChecks() []check {
	return []check{
		{"the trial of the image passed on a node next to the pool, with all checks", s.trialPassed},
		{"the trial node is gone, with its machine", s.trialNodeIsGone},
		{"the new node is Ready and was built from the prototype", s.builtFromPrototype},
		{"nodeadm joined the new node with the role of its instance, and no credential is on the disk", s.joinedByItsRole},
		{"the recipe still lets nodes join: the same user data, another image", s.recipeIsKept},
		{"the donor's container images were on the new disk from the start", s.imagesAreCached},
		{"the new node has the donor's patched packages and kernel, without a patch or a reboot", s.patchedWithoutPatching},
		{isFaster, s.prototypeIsFaster},
		{"the new node and its donor have different identities: machine-id, host name, ssh key, certificate", s.identityIsItsOwn},
		{"no two machines have collided", s.nothingCollided},
		{served, s.donorServed},
		{"the other nodes are unchanged", s.othersUntouched},
		{"the cloud rebuilt no running node", s.noNodeUpgraded},
		{"no snapshot, pod or lock is left", s.noLeftovers},
	}
}

// joinedByItsRole checks that the kubelet gets its credential from IAM, and that no credential is on the disk.
func (s *scenario) joinedByItsRole(context.Context) error {
	kubeconfig, err := os.ReadFile(filepath.Join(s.clone.machine.Disk, "var/lib/kubelet/kubeconfig"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(kubeconfig), "get-token") || strings.Contains(string(kubeconfig), "client-key") {
		return errors.New("the kubelet does not get its credential from IAM")
	}
	for _, credential := range []string{"var/lib/kubelet/pki/kubelet-client-*", "etc/kubernetes/certs/client.*", "etc/kubernetes/*kubelet.conf"} {
		// The patterns are ours and well formed, so there is no error to look at.
		if found, _ := filepath.Glob(filepath.Join(s.clone.machine.Disk, credential)); len(found) > 0 {
			return fmt.Errorf("%s is on the disk", found[0])
		}
	}
	return nil
}
